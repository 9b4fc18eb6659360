#include "ingest/masked_secrets.hpp"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "unit/ingest/export_fixture.hpp"

namespace nsys_explain::ingest {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(MaskedSecrets, AreThoseThatProgramsWrite) {
  const std::vector<std::pair<std::string, std::string>> texts = {
      {"HF_TOKEN=x1", "HF_TOKEN=***"},
      {"MYSQL_PWD=12345678 next", "MYSQL_PWD=*** next"},
      {"AWS_SECRET_ACCESS_KEY=\"a b;c\" next", "AWS_SECRET_ACCESS_KEY=*** next"},
      {"a=1;GITHUB_TOKEN=ghp_x1;b=2", "a=1;GITHUB_TOKEN=***;b=2"},
      {"login --password=pa,ss, then", "login --password=***, then"},
      {"curl --token x1y2 --verbose", "curl --token *** --verbose"},
      {"Authorization: Bearer abc.def-1", "Authorization: Bearer ***"},
      {"authorization: basic dXNlcg==", "authorization: basic ***"},
      {R"({"api_key": "x y", "n": 3})", R"({"api_key": ***, "n": 3})"},
      {R"({\"apiKey\": \"xy\", \"n\": 3})", R"({\"apiKey\": ***, \"n\": 3})"},
      {"{'password': 'pw', 'user': 'me'}", "{'password': ***, 'user': 'me'}"},
      {"secret=\"cut off in the midd", "secret=***"},
      {"http://user:pw@proxy:1/x", "http://***@proxy:1/x"},
      {"https://tok3n@host and ftp://b:c@d", "https://***@host and ftp://***@d"},
      {"push ghp_0123456789abcdefABCD!", "push ***!"},
      {"with sk-proj-0123456789abcdef", "with ***"},
      {"id AKIAIOSFODNN7EXAMPLE1 end", "id *** end"},
      {"jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-_1 end", "jwt *** end"},
      {"-----BEGIN RSA PRIVATE KEY----- MIIB x -----END", "***-----END"},
      // What is not known by its name is masked as the environment it comes from.
      {"SSH_AUTH_SOCK=/tmp/ssh-x1/agent", "SSH_AUTH_SOCK=***"},
      {"KRB5CCNAME=FILE:/tmp/krb5cc_1 RANKING=s3cr3t00", "KRB5CCNAME=*** RANKING=***"},
      {"DATABASE_URL=postgres://a:b@c/d", "DATABASE_URL=***"},
  };
  for (const auto& [text, expected] : texts) {
    std::string masked;
    EXPECT_TRUE(mask_secrets(text, masked)) << text;
    EXPECT_EQ(masked, expected);
    EXPECT_FALSE(mask_secrets(expected, masked)) << "masked once is masked: " << expected;
  }
}

TEST(MaskedSecrets, AreNoNamesOfWork) {
  for (const char* text : {"",
                           "step 12",
                           "forward",
                           "aten::mm, op_id = 3",
                           "ProfilerStep#5",
                           "num_tokens=128",
                           "tokens: 4096, batch=8",
                           "decode token=17",
                           "token: 3/128",
                           "Token::next",
                           "auth::Handler::run(int)",
                           "Tokenizer: encode text",
                           "BATCH=32,SEQ=2048",
                           "CUDA_VISIBLE_DEVICES=0,1,2",
                           "SHAPE=4x1024x8",
                           "PHASE=forward",
                           "DTYPE=bf16",
                           "OP=conv2d",
                           "N==longer_than_8",
                           "layer.3.key: q_proj",
                           "key=layer_17_attention",
                           "hf_llama_attention_7b",
                           "sk-learn",
                           "sk-transformer-forward-pass",
                           "nccl:all_reduce",
                           "## Call CompiledFxGraph fxyz0123456789abcdef ##",
                           "void f<(E)3>(T*, int)",
                           "http://host:80/x",
                           "a@b",
                           "password",
                           "--tokens 5",
                           "Optimizer.step#AdamW.step",
                           "\"token\": \"\""}) {
    std::string masked = "left alone";
    EXPECT_FALSE(mask_secrets(text, masked)) << text << " -> " << masked;
    EXPECT_EQ(masked, "left alone");
  }
}

TEST(MaskedSecrets, TakeTimeInProportionToTheText) {
  std::string text, expected;
  for (int i = 0; i < 100'000; ++i) {
    text += "API_KEY=x1y2 ";
    expected += "API_KEY=*** ";
  }
  EXPECT_TRUE(without_secrets(text) == expected);
}

class SecretsInExports : public testing::ScratchTest {
 protected:
  void SetUp() override {
    testing::Writer sql(file());
    testing::add_basics(sql);
    testing::add_kernel_table(sql);
    sql("INSERT INTO StringIds VALUES (1, 'kernel HF_TOKEN=of_a_kernel_1'), (2, 'load HF_TOKEN=registered'), (3, "
        "'MPI')");
    testing::add_kernel(sql, {.start = 10, .end = 20, .name = 1});
    sql("CREATE TABLE DIAGNOSTIC_EVENT (timestamp INTEGER, timestampType INTEGER, source INTEGER, severity INTEGER, "
        "text TEXT)");
    sql("INSERT INTO DIAGNOSTIC_EVENT VALUES (1, 1, 1, 2, 'started with HF_TOKEN=one' || char(10) || 'and more'),"
        "(2, 1, 1, 2, 'started with HF_TOKEN=two and more')");
    sql("CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT, "
        "globalTid INTEGER,endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, category INTEGER)");
    const auto row = [&](int start, int type, const std::string& text, const std::string& text_id) {
      sql("INSERT INTO NVTX_EVENTS VALUES (" + std::to_string(start) + ", 100, " + std::to_string(type) + ", " + text +
          ", " + std::to_string(testing::tid_101) + ", NULL, " + text_id + ", 1, 1)");
    };
    row(1, 75, "'domain --password=domain'", "NULL");
    row(1, 33, "'category token=category'", "NULL");
    row(2, 59, "'load HF_TOKEN=twice'", "NULL");
    row(3, 59, "'load HF_TOKEN=twice'", "NULL");
    row(4, 59, "'load HF_TOKEN=once'", "NULL");
    row(5, 59, "NULL", "2");
    row(6, 34, "'kernel HF_TOKEN=of_a_kernel_1'", "NULL");
  }
};

TEST_F(SecretsInExports, LeaveTheReaderMasked) {
  const Trace trace = read_trace(file());
  EXPECT_TRUE(testing::has_warning(trace, "Nsight Systems reported: started with HF_TOKEN=*** and more", 2));
  const auto& ranges = trace.processes.at(0).nvtx_ranges;
  ASSERT_EQ(ranges.size(), 5);
  std::vector<std::string> texts;
  for (const NvtxRange range : ranges) {
    texts.push_back(trace.strings.at(range.text));
    EXPECT_EQ(trace.strings.at(range.domain), "domain --password=***");
  }
  const std::string load = "load HF_TOKEN=***";
  EXPECT_THAT(texts, ::testing::ElementsAre(load, load, load, load, "kernel HF_TOKEN=***"));
  for (const std::string& text : trace.strings) {
    for (const char* secret : {"one", "two", "twice", "once", "registered", "password=domain", "token=category"})
      EXPECT_THAT(text, Not(HasSubstr(secret)));
  }
}

}  // namespace
}  // namespace nsys_explain::ingest
