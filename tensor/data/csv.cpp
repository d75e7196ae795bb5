// SPDX-License-Identifier: BSD-3-Clause
// A CSV parser for numbers.
#include "tensor/data/csv.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "tensor/data/byte_source.hpp"
#include "tensor/parse_number.hpp"

namespace troupe {

namespace {

constexpr std::int32_t largest_label = 9999;

std::string_view trimmed(std::string_view text) {
  auto first = text.find_first_not_of(" \t");
  if (first == text.npos)
    return text.substr(text.size()); // keeps its place, for the column in an error
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// The fields of a line as parts of it, without blanks and quotes around them.
void split_fields(std::string_view line, std::vector<std::string_view>& fields) {
  fields.clear();
  for (std::size_t begin = 0; begin <= line.size();) {
    auto rest = line.substr(begin);
    auto quote_end = trimmed(rest).starts_with('"') ? rest.find('"', rest.find('"') + 1) : 0;
    auto comma = std::min(quote_end == rest.npos ? rest.npos : rest.find(',', quote_end), rest.size());
    auto field = trimmed(rest.substr(0, comma));
    if (field.size() >= 2 && field.front() == '"' && field.back() == '"')
      field = trimmed(field.substr(1, field.size() - 2));
    fields.push_back(field);
    begin += comma + 1;
  }
}

/// Reads all of `field`, an optional plus in front; where that is not a T, says so.
template <class T>
bool parse(std::string_view field, T& value) {
  if (field.starts_with('+') && !field.starts_with("+-"))
    field.remove_prefix(1);
  const auto number = parse_number<T>(field);
  value = number.value_or(value);
  return number.has_value();
}

class csv_parser {
public:
  csv_parser(const std::filesystem::path& path, std::string_view text) : path_(path), text_(text) {
    if (text_.starts_with("\xEF\xBB\xBF")) // a byte order mark
      text_.remove_prefix(3);
  }

  result<labelled_rows> run() {
    while (next_line()) {
      if (trimmed(line_).empty())
        continue;
      split_fields(line_, fields_);
      if (columns_ == 0) {
        if (fields_.size() < 2)
          return fail(line_, "one column; a label and at least one number are needed");
        columns_ = fields_.size();
        if (take_header())
          continue;
      }
      if (auto done = take_row(); !done)
        return done.error();
    }
    if (rows_.labels.empty())
      return fail(line_, "no rows");
    rows_.columns = static_cast<std::int64_t>(columns_ - 1);
    rows_.classes = 1 + *std::ranges::max_element(rows_.labels);
    return std::move(rows_);
  }

private:
  bool next_line() {
    if (text_.empty())
      return false;
    auto end = std::min(text_.find('\n'), text_.size());
    line_ = text_.substr(0, end);
    text_.remove_prefix(std::min(end + 1, text_.size()));
    if (line_.ends_with('\r'))
      line_.remove_suffix(1);
    ++line_number_;
    return true;
  }

  /// Settles where the label stands; true where the line holds names.
  bool take_header() {
    auto named = std::ranges::find(fields_, std::string_view{"label"});
    label_column_ = static_cast<std::size_t>(named != fields_.end() ? named - fields_.begin() : std::ssize(fields_) - 1);
    double ignored = 0;
    return named != fields_.end() || std::ranges::none_of(fields_, [&](auto field) { return parse(field, ignored); });
  }

  result<void> take_row() {
    if (fields_.size() != columns_)
      return fail(line_, fmt::format("{} fields; the lines before have {}", fields_.size(), columns_));
    for (std::size_t i = 0; i < columns_; ++i) {
      auto done = i == label_column_ ? take_label(fields_[i]) : take_number(fields_[i]);
      if (!done)
        return done;
    }
    return {};
  }

  result<void> take_number(std::string_view field) {
    double value = 0;
    if (!parse(field, value) || !(std::abs(value) <= std::numeric_limits<float>::max())) // NaN fails the comparison
      return fail(field, fmt::format("'{}' is not a number (finite, 32 bits)", shown(field)));
    rows_.values.push_back(static_cast<float>(value));
    return {};
  }

  result<void> take_label(std::string_view field) {
    std::int32_t label = -1;
    if (!parse(field, label) || label < 0 || label > largest_label)
      return fail(field, fmt::format("'{}' is not a label; labels are integers from 0 to {}", shown(field), largest_label));
    rows_.labels.push_back(label);
    return {};
  }

  /// What may be shown of a field, however long it is.
  static std::string shown(std::string_view field) { return std::string{field.substr(0, 40)} + (field.size() > 40 ? "..." : ""); }

  error fail(std::string_view field, const std::string& message) const {
    auto column = field.data() == nullptr ? 1 : field.data() - line_.data() + 1;
    return {errc::bad_data, fmt::format("{}:{}:{}: {}", path_.string(), std::max(line_number_, 1), column, message)};
  }

  const std::filesystem::path& path_;
  std::string_view text_, line_;
  int line_number_ = 0;
  std::vector<std::string_view> fields_;
  std::size_t columns_ = 0, label_column_ = 0;
  labelled_rows rows_;
};

/// Takes the last tenth of the rows away.
labelled_rows take_last_tenth(labelled_rows& rows) {
  auto count = std::max<std::ptrdiff_t>(1, std::ssize(rows.labels) / 10);
  labelled_rows last{rows.columns, rows.classes, {}, {}};
  last.labels.assign(rows.labels.end() - count, rows.labels.end());
  last.values.assign(rows.values.end() - count * rows.columns, rows.values.end());
  rows.labels.resize(rows.labels.size() - last.labels.size());
  rows.values.resize(rows.values.size() - last.values.size());
  return last;
}

} // namespace

result<labelled_rows> read_csv(const std::filesystem::path& path) {
  auto bytes = read_whole_file(path);
  if (!bytes)
    return bytes.error();
  return csv_parser{path, {reinterpret_cast<const char*>(bytes->data()), bytes->size()}}.run();
}

result<table_halves> read_csv_files(const std::filesystem::path& path, const std::filesystem::path& test_path) {
  auto train = read_csv(path);
  if (!train)
    return train.error();
  if (test_path.empty()) {
    if (train->labels.size() < 2)
      return error{errc::bad_data, fmt::format("{}: one row cannot be both for training and for the test", path.string())};
    auto test = take_last_tenth(*train);
    return table_halves{std::move(*train), std::move(test)};
  }
  auto test = read_csv(test_path);
  if (!test)
    return test.error();
  auto refuse = [&](const std::string& why) { return error{errc::bad_data, fmt::format("{}: {}", test_path.string(), why)}; };
  if (test->columns != train->columns)
    return refuse(fmt::format("{} columns beside the label, {} has {}", test->columns, path.string(), train->columns));
  if (test->classes > train->classes)
    return refuse(fmt::format("labels up to {}, those of {} go up to {}", test->classes - 1, path.string(), train->classes - 1));
  test->classes = train->classes;
  return table_halves{std::move(*train), std::move(*test)};
}

} // namespace troupe
