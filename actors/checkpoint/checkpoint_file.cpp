// SPDX-License-Identifier: BSD-3-Clause
// Checkpoints as wholes: which there are, whether one is whole, what is in all of its files.
#include "actors/checkpoint/checkpoint_file.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <stdexcept>

#include <fmt/format.h>
#include <unistd.h>

#include "actors/checkpoint/durable_file.hpp"
#include "actors/checkpoint/names.hpp"

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;

/// The names in a folder; none where there is no such folder.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code wrong;
  for (fs::directory_iterator each(folder, wrong), end; !wrong && each != end; each.increment(wrong))
    names.push_back(each->path().filename().string());
  if (wrong && wrong != std::errc::no_such_file_or_directory)
    throw_io(folder, "list the folder", wrong.value());
  return names;
}

void remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    throw_io(path, "remove it", errno);
}

using open_files = std::vector<std::unique_ptr<shard_file>>;

/// The shards'.
open_files open_all(const std::string& folder, const checkpoint_manifest& manifest) {
  open_files files;
  for (const written_file& each : manifest.files)
    if (is_shard_name(each.name))
      files.push_back(std::make_unique<shard_file>(folder, each));
  std::ranges::sort(files, {}, [](const auto& each) { return each->head().range; });
  return files;
}

/// Throws where the ranges of `files`, which are in order, leave something of `part` out.
void require_all(const std::string& folder, const open_files& files, flat_range part, const std::string& of) {
  std::int64_t covered = part.begin;
  for (const auto& each : files)
    if (each->head().range.begin <= covered)
      covered = std::max(covered, each->head().range.end);
  if (covered < part.end)
    throw std::runtime_error(fmt::format("{}: no file has element {} of {}", folder, covered, of));
}

/// The workers' that have parameters of their own. Throws where one does not have all.
open_files open_replicas(const std::string& folder, const checkpoint_manifest& manifest) {
  open_files files;
  for (const written_file& each : manifest.files) {
    auto file = std::make_unique<shard_file>(folder, each);
    if (!file->has(replica_name))
      continue;
    if (file->head().range != flat_range{0, static_cast<std::int64_t>(manifest.floats)})
      throw std::runtime_error(fmt::format("{}/{}: is of another model", folder, each.name));
    files.push_back(std::move(file));
  }
  return files;
}

/// What there is of each element of the parameters.
open_files carriers(const std::string& folder, const checkpoint_manifest& manifest) {
  return manifest.has_shards() ? open_all(folder, manifest) : open_replicas(folder, manifest);
}

/// A piece of each at a time, so that little memory will do.
void read_mean(const open_files& replicas, flat_range part, float* to) {
  constexpr std::int64_t piece = 1 << 18;
  std::vector<float> values(replicas.size() * piece);
  for (std::int64_t begin = part.begin; begin < part.end; begin += piece) {
    const flat_range now{begin, std::min(begin + piece, part.end)};
    for (std::size_t r = 0; r < replicas.size(); ++r)
      replicas[r]->read(replica_name, now, values.data() + r * piece);
    for (std::int64_t i = 0; i < now.size(); ++i) {
      double sum = 0;
      for (std::size_t r = 0; r < replicas.size(); ++r)
        sum += static_cast<double>(values[r * piece + static_cast<std::size_t>(i)]);
      *to++ = static_cast<float>(sum / static_cast<double>(replicas.size()));
    }
  }
}

} // namespace

std::string checkpoint_name(protocols::version ver) {
  return fmt::format("step-{}", ver.value);
}

std::optional<protocols::version> checkpoint_version(const std::string& name) {
  const auto number = number_in<std::uint64_t>(name, "step-");
  return number ? std::optional(protocols::version{*number}) : std::nullopt;
}

std::vector<protocols::version> checkpoints_in(const std::string& dir) {
  std::vector<protocols::version> found;
  for (const std::string& name : names_in(dir)) {
    const auto ver = checkpoint_version(name);
    if (!ver || !fs::is_directory(fs::path(dir) / name))
      continue;
    const auto names = names_in(fmt::format("{}/{}", dir, name));
    if (std::ranges::any_of(names, [](const std::string& each) { return each == manifest_name || is_state_name(each); }))
      found.push_back(*ver);
  }
  std::ranges::sort(found);
  return found;
}

void remove_checkpoint(const std::string& dir, protocols::version ver) {
  const std::string folder = dir + "/" + checkpoint_name(ver);
  const auto names = names_in(folder);
  if (std::ranges::find(names, manifest_name) != names.end()) {
    remove_file(folder + "/" + manifest_name);
    sync_folder(folder); // else a crash could leave a manifest without its files
  }
  for (const std::string& each : names)
    if (each == unfinished_manifest || is_state_name(each))
      remove_file(fmt::format("{}/{}", folder, each));
  if (::rmdir(folder.c_str()) == 0)
    sync_folder(dir);
  else if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOENT)
    throw_io(folder, "remove the folder", errno);
}

void remove_strays(const std::string& dir, protocols::version begin, protocols::version end) {
  for (const auto ver : checkpoints_in(dir))
    if (begin < ver && ver < end && !fs::exists(fs::path(dir) / checkpoint_name(ver) / manifest_name))
      remove_checkpoint(dir, ver);
}

std::vector<std::string> faults_of(const std::string& folder) {
  std::vector<std::string> faults;
  try {
    const auto manifest = read_manifest(folder);
    for (const written_file& each : manifest.files)
      try {
        shard_file(folder, each).verify();
      } catch (const std::runtime_error& wrong) {
        faults.emplace_back(wrong.what());
      }
    if (faults.empty())
      require_all(folder, carriers(folder, manifest), {0, static_cast<std::int64_t>(manifest.floats)}, "the parameters");
  } catch (const std::runtime_error& wrong) {
    faults.emplace_back(wrong.what());
  }
  return faults;
}

std::optional<std::string> fault_of(const std::string& folder) {
  const auto faults = faults_of(folder);
  return faults.empty() ? std::nullopt : std::optional(faults.front());
}

bool read_block(const std::string& folder, const checkpoint_manifest& manifest, const std::string& block, flat_range part,
                float* to) {
  if (!manifest.has_shards() && block == parameters_name) {
    const auto replicas = open_replicas(folder, manifest);
    require_all(folder, replicas, part, "the parameters");
    read_mean(replicas, part, to);
    return true;
  }
  auto files = open_all(folder, manifest);
  std::erase_if(files, [&](const auto& each) { return !each->has(block); });
  if (files.empty())
    return false;
  require_all(folder, files, part, fmt::format("block \"{}\"", block));
  for (const auto& each : files) {
    const flat_range& has = each->head().range;
    const flat_range both{std::max(has.begin, part.begin), std::min(has.end, part.end)};
    if (both.begin < both.end)
      each->read(block, both, to + (both.begin - part.begin));
  }
  return true;
}

std::uint64_t read_number(const std::string& folder, const checkpoint_manifest& manifest, const std::string& name) {
  std::uint64_t largest = 0;
  for (const auto& each : open_all(folder, manifest))
    largest = std::max(largest, each->number(name));
  return largest;
}

bool checkpoint_manifest::has_shards() const {
  return std::ranges::any_of(files, [](const written_file& each) { return is_shard_name(each.name); });
}

const written_file* file_of_worker(const checkpoint_manifest& manifest, std::uint32_t worker) {
  const auto found = std::ranges::find(manifest.files, worker, [](const written_file& each) { return worker_in(each.name); });
  return found == manifest.files.end() ? nullptr : &*found;
}

} // namespace troupe::actors
