#include <map>

#include "tools/lint/rules.h"
#include "tools/lint/text.h"

namespace ndtrain::lint {
namespace {

struct Token {
  std::string_view text;  // a word, with its qualification, or one other character
  size_t line;
};

// The words and signs of C++ that are no comment, no literal and no line of the preprocessor.
class Tokens {
 public:
  explicit Tokens(std::string_view text) : rest_(text) {}

  // Empty text at the end.
  Token next() {
    while (!rest_.empty()) {
      const char c = rest_.front();
      if (c == '\n' || std::isspace(static_cast<unsigned char>(c))) {
        if (c == '\n') at_line_begin_ = true;
        advance(1);
      } else if (c == '#' && at_line_begin_) {
        directive();
      } else if (rest_.starts_with("//")) {
        advance(rest_.find('\n'));
      } else if (rest_.starts_with("/*")) {
        past("*/", 2);
      } else if (rest_.starts_with("R\"")) {
        const size_t open = rest_.find('(');
        past(")" + std::string(rest_.substr(2, open - 2)) + "\"", open);
      } else if (c == '"' || c == '\'') {
        literal(c);
      } else {
        at_line_begin_ = false;
        return taken(is_word(c) ? word() : 1);
      }
    }
    return {{}, line_};
  }

 private:
  void advance(size_t n) {
    n = std::min(n, rest_.size());
    line_ += static_cast<size_t>(std::ranges::count(rest_.substr(0, n), '\n'));
    rest_.remove_prefix(n);
  }

  Token taken(size_t n) {
    const Token t{rest_.substr(0, n), line_};
    advance(n);
    return t;
  }

  void past(std::string_view end, size_t from) {
    const size_t at = rest_.find(end, from);
    advance(at == rest_.npos ? at : at + end.size());
  }

  void directive() {
    size_t end = rest_.find('\n');
    while (end != rest_.npos && rest_[end - 1] == '\\') end = rest_.find('\n', end + 1);
    advance(end);
  }

  void literal(char quote) {
    size_t end = 1;
    while (end < rest_.size() && rest_[end] != quote && rest_[end] != '\n') {
      end += rest_[end] == '\\' ? 2 : 1;
    }
    advance(end + 1);
  }

  // Also 1'000, and a::b as one.
  size_t word() const {
    const auto at = [&](size_t i) { return i < rest_.size() ? rest_[i] : '\0'; };
    size_t end = 1;
    while (is_word(at(end)) || (at(end) == '\'' && is_word(at(end - 1)) && is_word(at(end + 1))) ||
           (at(end) == ':' && at(end + 1) == ':' && is_word(at(end + 2)))) {
      end += at(end) == ':' ? 2 : 1;
    }
    return end;
  }

  std::string_view rest_;
  size_t line_ = 1;
  bool at_line_begin_ = true;
};

bool is_type_keyword(std::string_view word) {
  return word == "struct" || word == "class" || word == "union" || word == "enum";
}

// Behind the second keyword of an enum class, attributes and an alignment.
size_t place_of_name(const std::vector<Token>& head, size_t at) {
  for (int depth = 0; at < head.size(); ++at) {
    const std::string_view t = head[at].text;
    depth += t == "(" || t == "[" ? 1 : t == ")" || t == "]" ? -1 : 0;
    const bool passed = t == ")" || t == "]" || t == "alignas" || is_type_keyword(t);
    if (depth == 0 && !passed) break;
  }
  return at;
}

// What `head`, the tokens before a brace, defines as a type at namespace scope; "" if nothing.
// Specialisations of templates and members defined outside of their class are not new names.
std::string_view defined_type(const std::vector<Token>& head) {
  int depth = 0;
  for (size_t i = 0; i < head.size(); ++i) {
    const std::string_view t = head[i].text;
    if (depth == 0 && (t == "(" || t == "=")) return {};
    depth += t == "<" ? 1 : t == ">" ? -1 : 0;
    if (depth > 0 || !is_type_keyword(t)) continue;
    const size_t name = place_of_name(head, i + 1);
    if (name >= head.size() || !is_word(head[name].text.front())) return {};
    const bool ends =
        name + 1 == head.size() || head[name + 1].text == ":" || head[name + 1].text == "final";
    return ends && head[name].text.find("::") == t.npos ? head[name].text : std::string_view{};
  }
  return {};
}

struct Definition {
  std::string name;  // qualified
  size_t line;
};

// The types that a file defines and that all of its program see: none of an anonymous namespace.
std::vector<Definition> defined_types(const File& file) {
  std::vector<Definition> found;
  std::vector<std::string> scopes;  // namespaces; "" for any other brace, and for an anonymous one
  std::vector<Token> head;
  Tokens tokens(file.text);
  for (Token t = tokens.next(); !t.text.empty(); t = tokens.next()) {
    if (t.text == "}" && !scopes.empty()) scopes.pop_back();
    if (t.text == "{") {
      const bool is_namespace = !head.empty() && head[0].text == "namespace";
      const std::string_view type = is_namespace ? std::string_view{} : defined_type(head);
      if (!type.empty() && std::ranges::count(scopes, "") == 0) {
        std::string name;
        for (const std::string& scope : scopes) name += scope + "::";
        found.push_back({name + std::string(type), head.back().line});
      }
      scopes.emplace_back(is_namespace && head.size() > 1 ? head[1].text : "");
    }
    if (t.text == "{" || t.text == "}" || t.text == ";") {
      head.clear();
    } else {
      head.push_back(t);
    }
  }
  return found;
}

// Files that are linked into one program: each plugin and each example is one of its own.
std::string program_of(const std::string& path) {
  const size_t first = path.find('/');
  if (path.starts_with("examples/")) return path;
  if (path.starts_with("backends/")) return path.substr(0, path.find('/', first + 1));
  return "";
}

}  // namespace

std::vector<Problem> check_types_once(std::span<const File> tree) {
  std::map<std::pair<std::string, std::string>, std::string> places;
  std::vector<Problem> problems;
  for (const File& f : tree) {
    if (!is_cpp(f.path)) continue;
    for (const Definition& d : defined_types(f)) {
      const std::string place = f.path + ":" + std::to_string(d.line);
      const auto [it, first] = places.try_emplace({program_of(f.path), d.name}, place);
      if (first) continue;
      problems.push_back({f.path, d.line,
                          "type " + d.name + " is defined at " + it->second +
                              " too: one program has one type of a name"});
    }
  }
  return problems;
}

}  // namespace ndtrain::lint
