// SPDX-License-Identifier: BSD-3-Clause
// Authorities and what they sign, at times of the test's choosing; what is wrong with a node's files.
#include "apps/certs/authority.hpp"

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <utility>

#include <cstdlib>

#include <gtest/gtest.h>

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

constexpr std::time_t day = 86400;
constexpr std::time_t now = 1800000000; // 2027-01-15

class temporary_folder {
public:
  temporary_folder() {
    auto pattern = (fs::temp_directory_path() / "troupe-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
      throw std::runtime_error("no temporary folder " + pattern);
    path_ = pattern;
  }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;
  ~temporary_folder() { fs::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

private:
  std::string path_;
};

template <class T>
std::string refusal_of(const certified<T>& result) {
  return result ? "accepted" : result.error().message;
}

class Certificates : public testing::Test {
protected:
  /// Makes an authority in `lab`, and has it sign `node`.
  issued issue(const std::string& lab, const std::string& node, std::time_t when = now, int days = 365) {
    if (!fs::exists(folder / lab))
      make_authority({folder / lab, lab}, when).value();
    return issue_certificate({folder / lab, node, {}, "", days}, when).value();
  }
  /// What check_node_files says, without the temporary folder.
  std::vector<std::string> wrong(const std::string& ca, const std::string& certificate, const std::string& key,
                                 std::time_t when = now) {
    std::vector<std::string> said;
    for (auto [which, message] : check_node_files({folder / ca, folder / certificate, folder / key}, when)) {
      for (auto at = message.find(folder / ""); at != std::string::npos; at = message.find(folder / ""))
        message.erase(at, (folder / "").size());
      said.push_back(message);
    }
    return said;
  }
  using texts = std::vector<std::string>;

  temporary_folder folder;
};

TEST_F(Certificates, WhatAnAuthorityIssuesIsGoodForItsNode) {
  const issued a = issue("lab", "a");
  EXPECT_EQ(wrong("lab/ca.pem", "lab/a.pem", "lab/a.key"), texts{});
  EXPECT_EQ(a.until, now + 365 * day);
  EXPECT_EQ(valid_until(read_certificate(a.certificate)->get()), a.until);
}

TEST_F(Certificates, WhatIsRevokedStaysRevokedAndNothingElseIs) {
  issue("lab", "a");
  issue("lab", "b");
  const auto empty = revoke_certificates({folder / "lab", "", ""}, now).value();
  EXPECT_EQ(empty.all, 0U);
  const node_files a{folder / "lab/ca.pem", folder / "lab/a.pem", folder / "lab/a.key", folder / "lab/crl.pem"};
  const node_files b{a.ca, folder / "lab/b.pem", folder / "lab/b.key", a.crl};
  EXPECT_TRUE(check_node_files(a, now).empty());
  const auto first = revoke_certificates({folder / "lab", "a", ""}, now).value();
  EXPECT_EQ(std::pair(first.added, first.all), std::pair(std::size_t{1}, std::size_t{1}));
  EXPECT_NE(check_node_files(a, now).at(0).message.find("certificate revoked"), std::string::npos);
  EXPECT_TRUE(check_node_files(b, now).empty());
  const auto both = revoke_certificates({folder / "lab", "", folder / "lab/b.pem"}, now).value();
  EXPECT_EQ(std::pair(both.added, both.all), std::pair(std::size_t{1}, std::size_t{2}));
  const auto again = revoke_certificates({folder / "lab", "a", ""}, now).value();
  EXPECT_EQ(std::pair(again.added, again.all), std::pair(std::size_t{0}, std::size_t{2}));
  EXPECT_NE(check_node_files(a, now).size() * check_node_files(b, now).size(), 0U);
  fs::remove(folder / "lab/a.pem");
  fs::remove(folder / "lab/a.key");
  issue("lab", "a");
  EXPECT_TRUE(check_node_files(a, now).empty()) << "the name has another certificate";
}

TEST_F(Certificates, ARequestToRevokeWhatIsNotTheAuthoritysIsRefused) {
  issue("lab", "a");
  issue("other", "b");
  EXPECT_NE(refusal_of(revoke_certificates({folder / "lab", "", folder / "other/b.pem"}, now)).find("is not of this authority"),
            std::string::npos);
  EXPECT_NE(refusal_of(revoke_certificates({folder / "lab", "b", ""}, now)).find("names no certificate that was issued to \"b\""),
            std::string::npos);
  revoke_certificates({folder / "other", "b", ""}, now).value();
  fs::copy_file(folder / "other/crl.pem", folder / "lab/crl.pem");
  EXPECT_NE(refusal_of(revoke_certificates({folder / "lab", "a", ""}, now)).find("is not a list of this authority"),
            std::string::npos);
}

TEST_F(Certificates, OneOfSeveralAuthoritiesIsEnough) {
  issue("lab", "a");
  issue("other", "b");
  std::ofstream{folder / "both.pem"} << std::ifstream{folder / "lab/ca.pem"}.rdbuf()
                                     << std::ifstream{folder / "other/ca.pem"}.rdbuf();
  EXPECT_EQ(wrong("both.pem", "lab/a.pem", "lab/a.key"), texts{});
  EXPECT_EQ(wrong("both.pem", "other/b.pem", "other/b.key"), texts{});
}

TEST_F(Certificates, AClockThatIsAnHourLateTakesThemToo) {
  issue("lab", "a");
  EXPECT_EQ(wrong("lab/ca.pem", "lab/a.pem", "lab/a.key", now - 3600), texts{});
  EXPECT_EQ(
      wrong("lab/ca.pem", "lab/a.pem", "lab/a.key", now - 3660),
      (texts{"lab/ca.pem is good from 2027-01-15 07:00 UTC and this machine's clock says 2027-01-15 06:59 UTC; set the clock",
             "lab/a.pem is good from 2027-01-15 07:00 UTC and this machine's clock says 2027-01-15 06:59 UTC; set the clock"}));
}

TEST_F(Certificates, AnUnsetClockMakesNothing) {
  EXPECT_EQ(refusal_of(make_authority({folder / "lab", "lab"}, 0)),
            "this machine's clock says 1970-01-01 00:00 UTC; a certificate made now would be worthless: set the clock");
  EXPECT_FALSE(fs::exists(folder / "lab"));
}

TEST_F(Certificates, AnAuthoritySignsNeitherBeforeNorAfterItsTime) {
  make_authority({folder / "lab", "lab", 10}, now).value();
  EXPECT_NE(refusal_of(issue_certificate({folder / "lab", "a", {}, "", 1}, now - day)).find("set the clock"), std::string::npos);
  EXPECT_NE(refusal_of(issue_certificate({folder / "lab", "a", {}, "", 1}, now + 11 * day)).find("expired at"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(folder / "lab/a.pem"));
  EXPECT_EQ(issue_certificate({folder / "lab", "a", {}, "", 365}, now + 9 * day)->until, now + 10 * day);
}

TEST_F(Certificates, AnExpiredCertificateIsNamedWithItsEnd) {
  issue("lab", "a", now, 1);
  EXPECT_EQ(wrong("lab/ca.pem", "lab/a.pem", "lab/a.key", now + day + 1),
            texts{"lab/a.pem expired at 2027-01-16 08:00 UTC; issue another"});
}

TEST_F(Certificates, ACertificateOfAnotherAuthorityIsNamedEvenWhenBothHaveOneName) {
  issue("lab", "a");
  issue("other", "a");
  EXPECT_EQ(wrong("lab/ca.pem", "other/a.pem", "other/a.key"),
            texts{"other/a.pem is not signed by lab/ca.pem (\"lab\"): unable to get local issuer certificate; issue it with "
                  "`troupe certs issue`"});
  make_authority({folder / "twin", "lab"}, now).value();
  issue("twin", "a");
  ASSERT_EQ(wrong("lab/ca.pem", "twin/a.pem", "twin/a.key").size(), 1U);
}

TEST_F(Certificates, AKeyOfAnotherCertificateIsNamed) {
  issue("lab", "a");
  issue("lab", "b");
  EXPECT_EQ(wrong("lab/ca.pem", "lab/a.pem", "lab/b.key"),
            texts{"lab/b.key is not the key of lab/a.pem; name the one that was issued with it"});
}

TEST_F(Certificates, FilesThatAreMissingOrSwappedAreNamedEach) {
  issue("lab", "a");
  EXPECT_EQ(wrong("ca.pem", "lab", "lab/a.pem"),
            (texts{"ca.pem cannot be read: No such file or directory; `troupe certs` makes such files",
                   "lab is a folder; a PEM file is wanted",
                   "lab/a.pem holds a CERTIFICATE; a private key without a passphrase is wanted"}));
  EXPECT_EQ(wrong("lab/a.pem", "lab/a.pem", "lab/a.key"),
            texts{"lab/a.pem is the certificate of \"a\", which is no authority; name the authority's ca.pem"});
}

} // namespace
} // namespace troupe::apps
