// Progress on a terminal: a line that moves stays one line.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <pty.h>
#include <unistd.h>

#include "tests/cli/program_fixture.h"

namespace ndtrain {
using namespace ndp;

namespace {

// What a terminal shows at last: lines wrap at its last column, \r goes back to the first, and
// ESC [ K erases the rest of the line.
std::vector<std::string> screen_of(const std::string& output, size_t width) {
  std::vector<std::string> rows(1);
  size_t column = 0;
  for (size_t i = 0; i < output.size(); ++i) {
    if (output[i] == '\r') {
      column = 0;
    } else if (output[i] == '\n') {
      rows.emplace_back();
    } else if (output.compare(i, 3, "\x1b[K") == 0) {
      rows.back().resize(std::min(rows.back().size(), column));
      i += 2;
    } else if ((static_cast<unsigned char>(output[i]) & 0xC0) != 0x80) {
      if (column == width) {
        rows.emplace_back();
        column = 0;
      }
      rows.back().resize(std::max(rows.back().size(), column + 1), ' ');
      rows.back()[column++] = output[i];
    }
  }
  return rows;
}

class ProgressTest : public testing_cli::ProgramTest {
 protected:
  // On a terminal of so many columns; what it shows at last.
  std::string run_on_terminal(const std::vector<std::string>& words, uint16_t columns) const {
    int master = -1, slave = -1;
    winsize size{.ws_row = 50, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    EXPECT_EQ(openpty(&master, &slave, nullptr, nullptr, &size), 0);
    const pid_t child = start(words, slave);
    close(slave);
    std::string output;
    char buffer[4096];
    for (ssize_t n; (n = read(master, buffer, sizeof(buffer))) > 0;) output.append(buffer, n);
    close(master);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << output;
    std::string shown;
    for (const std::string& row : screen_of(output, columns)) shown += row + "\n";
    return shown;
  }
  static int times(const std::string& what, const std::string& text) {
    int n = 0;
    for (size_t at = 0; (at = text.find(what, at)) != text.npos; at += what.size()) ++n;
    return n;
  }
};

TEST_F(ProgressTest, ALineIsThereOnceHoweverNarrowTheTerminal) {
  draw_photos(24);
  const std::string longer = "photos_of_a_summer_that_was_longer_than_most_of_those_before_it";
  std::filesystem::rename(at("photos"), at(longer));
  ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  for (const uint16_t columns : {40, 80, 115, 200}) {
    const std::string name = "run" + std::to_string(columns);
    const std::string shown = run_on_terminal(
        {"train", longer, "-m", "m.onnx", "-o", name, "-e", "2", "--cache", name}, columns);
    for (const char* stage : {"scanning ", "extracting features ", "epoch 1/2 ", "epoch 2/2 "}) {
      EXPECT_EQ(times(stage, shown), 1) << stage << "at " << columns << " columns:\n" << shown;
    }
    // A line that is done is whole.
    EXPECT_EQ(times("top-5", shown), 2) << shown;
  }
}

}  // namespace
}  // namespace ndtrain
