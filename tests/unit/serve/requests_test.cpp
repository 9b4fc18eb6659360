#include "serve/requests.hpp"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "serve/analyses.hpp"
#include "serve/refusal.hpp"
#include "serve/report_tree.hpp"

namespace nsys_explain::serve {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(Target, IsSegmentsAndParametersWithoutTheirEscapes) {
  const Target target =
      parse_target("/api/v1/reports/team%2Fjob%208/tables/ranks?where=wait_ns%3E=10&where=a~b+c&limit=3&&flag");
  EXPECT_THAT(target.segments, ElementsAre("api", "v1", "reports", "team/job 8", "tables", "ranks"));
  EXPECT_THAT(target.parameters,
              ElementsAre(Pair("where", "wait_ns>=10"), Pair("where", "a~b c"), Pair("limit", "3"), Pair("flag", "")));
  EXPECT_EQ(target.parameter("where"), "a~b c");
  EXPECT_EQ(target.parameter("absent"), "");
}

TEST(Target, OfTheRootHasNoSegmentAndASlashAtTheEndMeansTheSame) {
  EXPECT_THAT(parse_target("/").segments, IsEmpty());
  EXPECT_THAT(parse_target("/?a=b").segments, IsEmpty());
  EXPECT_THAT(parse_target("/reports/").segments, ElementsAre("reports"));
  EXPECT_THAT(parse_target("/a//b").segments, ElementsAre("a", "", "b"));
  EXPECT_THAT(parse_target("/a#b?c").segments, ElementsAre("a"));
  EXPECT_THAT(parse_target("/a+b").segments, ElementsAre("a+b"));
}

TEST(Target, RefusesWhatNobodyCanRead) {
  for (const char* text : {"", "a", "/%", "/%4", "/%zz", "/a%00b", "/a%0ab", "/a?b=%7f", "*", "http://host/a"}) {
    EXPECT_THROW(parse_target(text), Refusal) << text;
  }
  std::string deep;
  for (int i = 0; i < 65; ++i) deep += "/a";
  EXPECT_THROW(parse_target(deep), Refusal);
}

TEST(Target, EscapesAreReadAsTheyWereWritten) {
  std::string all;
  for (int c = 0x20; c < 0x100; ++c) {
    if (c != 0x7f) all += static_cast<char>(c);
  }
  EXPECT_THAT(parse_target("/" + escaped(all)).segments, ElementsAre(all));
  EXPECT_EQ(escaped("a/b c%"), "a%2Fb%20c%25");
}

TEST(HtmlText, LeavesNothingThatHtmlObeys) {
  EXPECT_EQ(html_text("<a href='x' b=\"y\">&"), "&lt;a href=&#39;x&#39; b=&quot;y&quot;&gt;&amp;");
}

}  // namespace

// Who may ask for what.

namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

class Access : public testing::Test {
 protected:
  Access() {
    std::string pattern = (fs::temp_directory_path() / "serve-test-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
  }
  ~Access() override { fs::remove_all(directory_); }
  void write(const fs::path& path, const std::string& text) const {
    fs::create_directories((directory_ / path).parent_path());
    std::ofstream(directory_ / path) << text;
  }
  void report(const std::string& name) const {
    write(name + "/store.h5", "store of " + name);
    write(name + "/report.json", "{}");
  }
  fs::path directory_;
};

TEST_F(Access, TokensAreReadFromPrivateFilesOnly) {
  write("token", "0123456789abcdef\n");
  const std::string path = (directory_ / "token").string();
  for (const auto& [mode, is_private] :
       {std::pair(0600, true), {0400, true}, {0640, true}, {0644, false}, {0660, false}, {0604, false}}) {
    ::chmod(path.c_str(), static_cast<mode_t>(mode));
    if (is_private) {
      EXPECT_EQ(read_token(path), "0123456789abcdef") << mode;
    } else {
      EXPECT_THROW(read_token(path), Refusal) << mode;
    }
  }
  ::chmod(path.c_str(), 0600);
  for (const char* text : {"", "short\n", "0123456789 abcdefg", "0123456789abcdef\nmore"}) {
    write("token", text);
    EXPECT_THROW(read_token(path), Refusal) << text;
  }
  EXPECT_THROW(read_token((directory_ / "absent").string()), Refusal);
  EXPECT_THROW(read_token(directory_.string()), Refusal);
}

TEST_F(Access, TheTokenComesAsBearerOrAsPassword) {
  const std::string token = "0123456789abcdef";
  EXPECT_TRUE(is_authorised("Bearer " + token, token));
  EXPECT_TRUE(is_authorised("bearer " + token, token));
  EXPECT_TRUE(is_authorised("Basic bWU6MDEyMzQ1Njc4OWFiY2RlZg==", token));  // me:0123456789abcdef
  EXPECT_TRUE(is_authorised("Basic OjAxMjM0NTY3ODlhYmNkZWY=", token));      // without a name
  for (const char* header :
       {"", "Bearer", "Bearer ", "Bearer 0123456789abcdeF", "Bearer 0123456789abcde", "Bearer 0123456789abcdef0",
        "0123456789abcdef", "Basic !", "Basic ", "Basic MDEyMzQ1Njc4OWFiY2RlZg==", "Digest 0123456789abcdef"}) {
    EXPECT_FALSE(is_authorised(header, token)) << header;
  }
}

TEST_F(Access, ReportsAreFoundByTheirFilesAndNothingElseIs) {
  for (const char* name : {"b", "a", "team/one", "team/two", ".hidden/x", "1/2/3/4", "1/2/3/5/6"}) report(name);
  write("half/store.h5", "");
  write("half2/report.json", "");
  fs::create_directory_symlink(directory_ / "a", directory_ / "link");
  const ReportTree tree(directory_.string());
  EXPECT_THAT(tree.names(), ElementsAre("1/2/3/4", "a", "b", "team/one", "team/two"));
  EXPECT_EQ(read_all(tree.open_file("team/one", "store.h5").number(), 100), "store of team/one");
  EXPECT_THROW(read_all(tree.open_file("a", "store.h5").number(), 3), Refusal);
  // Far more than there is memory: refused before any is taken.
  fs::resize_file(directory_ / "b/store.h5", std::uintmax_t{1} << 42);
  EXPECT_THROW(read_all(tree.open_file("b", "store.h5").number(), std::int64_t{1} << 41), Refusal);
}

TEST_F(Access, NothingOutsideTheRootCanBeOpened) {
  report("root/a");
  report("other");
  write("secret", "s");
  fs::create_directory_symlink(directory_ / "other", directory_ / "root/link");
  report("root/b");
  fs::remove(directory_ / "root/b/report.json");
  fs::create_symlink(directory_ / "secret", directory_ / "root/b/report.json");
  report("root/c");
  fs::create_symlink(directory_ / "secret", directory_ / "root/c/report.md");
  const ReportTree tree((directory_ / "root").string());
  for (const char* name :
       {"", ".", "..", "../other", "a/../../other", "/", "/etc", "a/", "a//", "./a", "link", "b", "a/..", "a\n"}) {
    EXPECT_THROW(tree.open_file(name, "report.json"), Refusal) << name;
  }
  EXPECT_THROW(tree.open_file("c", "report.md"), Refusal);
  EXPECT_TRUE(tree.open_file("a", "report.json"));
}

TEST_F(Access, TheRootMustHoldReportsAndBeNone) {
  report("a");
  EXPECT_THROW(ReportTree((directory_ / "a").string()), Refusal);
  EXPECT_THROW(ReportTree((directory_ / "absent").string()), Refusal);
}

TEST(RequestChecks, AddressesToListenAt) {
  EXPECT_EQ(parse_address("127.0.0.1:8750"), std::pair(std::string("127.0.0.1"), 8750));
  EXPECT_EQ(parse_address("[::1]:0"), std::pair(std::string("::1"), 0));
  for (const char* text : {"", ":80", "host", "host:", "host:x", "host:70000", "::1:80", "host:-1"})
    EXPECT_THROW(parse_address(text), Refusal) << text;
}

TEST(RequestChecks, OnlyThisHostIsReachedByItsOwnAddresses) {
  for (const char* address : {"127.0.0.1", "127.8.9.10", "localhost", "::1"})
    EXPECT_TRUE(is_loopback(address)) << address;
  for (const char* address : {"0.0.0.0", "::", "10.0.0.1", "127.0.0.1.evil.org", "127.0.0", "127.0.0.256",
                              "localhost.evil.org", "1127.0.0.1", ""}) {
    EXPECT_FALSE(is_loopback(address)) << address;
  }
  for (const char* host :
       {"127.0.0.1:8750", "localhost", "localhost:1", "LOCALHOST", "LocalHost:8750", "[::1]:80", "[::1]"})
    EXPECT_TRUE(is_loopback_host(host)) << host;
  for (const char* host :
       {"", "evil.org", "evil.org:8750", "localhost:x", "localhost:80:80", "[::1", "[::1]x", "[::2]:80"}) {
    EXPECT_FALSE(is_loopback_host(host)) << host;
  }
}

TEST(RequestChecks, OtherSitesChangeNothing) {
  EXPECT_TRUE(is_own_origin("", "localhost:80", ""));  // a program
  EXPECT_TRUE(is_own_origin("http://localhost:80", "localhost:80", "same-origin"));
  EXPECT_TRUE(is_own_origin("http://localhost:80", "LOCALHOST:80", ""));  // names of hosts have no case
  EXPECT_FALSE(is_own_origin("http://evil.org", "localhost:80", ""));
  EXPECT_FALSE(is_own_origin("null", "localhost:80", ""));  // a report's own page has no origin
  EXPECT_FALSE(is_own_origin("http://localhost:81", "localhost:80", ""));
  EXPECT_FALSE(is_own_origin("", "localhost:80", "cross-site"));
  EXPECT_FALSE(is_own_origin("http://", "", ""));
}

TEST(RequestChecks, MediaTypesHaveNoCaseAndValuesHave) {
  EXPECT_EQ(plain_media_type("APPLICATION/JSON"), "application/json");
  EXPECT_TRUE(is_json_type(plain_media_type("Application/Json; Charset=UTF-8")));
  EXPECT_EQ(plain_media_type("Multipart/Form-Data; BOUNDARY=Cut-Here; X=Y"),
            "multipart/form-data; boundary=Cut-Here; x=Y");
  EXPECT_EQ(plain_media_type(R"(A/B; C="D;E=F"; G=H)"), R"(a/b; c="D;E=F"; g=H)");
  EXPECT_EQ(plain_media_type(""), "");
}

TEST(RequestChecks, ExportsHaveNamesWithoutPaths) {
  for (const char* name : {"rank_0.sqlite", "a.sqlite", "9-x.sqlite"}) EXPECT_TRUE(is_export_name(name)) << name;
  for (const char* name : {"", ".", "..", ".hidden.sqlite", "a/b.sqlite", "../a.sqlite", "a b.sqlite", "-a.sqlite",
                           "a\\b.sqlite", "\xc3\xa4.sqlite", ".sqlite"})
    EXPECT_FALSE(is_export_name(name)) << name;
  // What lies beside an export acts on it.
  for (const char* name : {"a.sqlite-journal", "a.sqlite-wal", "a.sqlite-shm", "a", "a.nsys-rep"})
    EXPECT_FALSE(is_export_name(name)) << name;
}

TEST(Refusals, RepeatNoMoreThanTheBeginningOfWhatWasSent) {
  EXPECT_EQ(beginning_of(std::string(200, 'a')), std::string(200, 'a'));
  EXPECT_EQ(beginning_of(std::string(201, 'a')), std::string(200, 'a') + "...");
  EXPECT_EQ(beginning_of("a\xc3\xa4\xc3\xa4", 4), "a\xc3\xa4...") << "not half a character";
}

TEST(Refusals, TakeSentencesOfTheCommandLineApart) {
  const Refusal refusal = refusal_of(503, "cannot read x, so nobody knows; run it again");
  EXPECT_EQ(refusal.problem(), "cannot read x");
  EXPECT_EQ(refusal.why(), "so nobody knows");
  EXPECT_EQ(refusal.what_to_do(), "run it again");
  EXPECT_EQ(refusal_of(500, "bad").problem(), "bad");
}

}  // namespace

}  // namespace nsys_explain::serve
