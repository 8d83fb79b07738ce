// Manual pages, of the same tables as --help.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/help_text.h"
#include "framework/core/publish.h"

namespace ndtrain::cli {
namespace {

// As troff takes it: a hyphen that can be copied, no line that is a request.
std::string escaped(std::string_view text) {
  std::string out;
  bool begins = true;
  for (const char c : text) {
    if (begins && (c == '.' || c == '\'')) out += "\\&";
    begins = c == '\n';
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string page_of(const Verb& verb) {
  std::string name = "ndtrain-" + std::string(verb.name);
  std::ranges::replace(name, ' ', '-');
  return name;
}

std::string heading(std::string page) {
  std::ranges::transform(page, page.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return fmt::format(".TH {} 1 \"\" \"ndtrain {}\" \"ndtrain\"\n", escaped(page), NDT_VERSION);
}

std::string literal(std::string_view text) {
  return ".PP\n.nf\n" + escaped(text) + (text.ends_with('\n') ? "" : "\n") + ".fi\n";
}

std::string option(const Flag& flag) {
  const std::string letter = flag.letter.empty() ? "" : "\\fB\\-" + flag.letter + "\\fR, ";
  const std::string value = flag.value.empty() ? "" : " \\fI" + escaped(flag.value) + "\\fR";
  return ".TP\n" + letter + "\\fB\\-\\-" + escaped(flag.name) + "\\fR" + value + "\n" +
         escaped(flag.help + default_text(flag)) + "\n";
}

std::string options(const ArgsSpec& spec) {
  std::string out = ".SH OPTIONS\n";
  for (const std::string& h : headings_of(spec)) {
    if (!h.empty()) out += ".SS \"" + escaped(h) + "\"\n";
    for (const Flag& flag : spec.flags()) {
      if (flag.heading == h) out += option(flag);
    }
  }
  return out;
}

std::string verb_page(const Verb& verb) {
  ArgsSpec spec(verb.name);
  verb.declare(spec);
  const std::string name(verb.name), page = page_of(verb);
  std::string out = heading(page) + ".SH NAME\n" + escaped(page) + " \\- " + escaped(verb.summary) +
                    "\n.SH SYNOPSIS\n\\fBndtrain " + escaped(name) + "\\fR " + escaped(verb.usage) +
                    "\n";
  if (!spec.arguments().empty()) out += ".SH ARGUMENTS\n";
  for (const Positional& p : spec.arguments()) {
    out += ".TP\n\\fI" + escaped(p.name) + "\\fR\n" + escaped(p.help) + "\n";
  }
  return out + options(spec) + ".SH EXAMPLES\n" + literal(verb.examples) +
         ".SH SEE ALSO\n.BR ndtrain (1)\n";
}

std::string main_page() {
  std::string out = heading("ndtrain") +
                    ".SH NAME\nndtrain \\- train and relabel where the photos live\n"
                    ".SH SYNOPSIS\n\\fBndtrain\\fR \\fIVERB\\fR [options]\n.SH VERBS\n";
  std::string_view last;
  for (const VerbSection& section : verb_sections()) {
    if (section.heading != last) out += ".SS \"" + escaped(section.heading) + "\"\n";
    last = section.heading;
    for (const Verb& v : section.verbs) {
      out += ".TP\n.BR " + escaped(page_of(v)) + " (1)\n" + escaped(v.summary) + "\n";
    }
  }
  return out + ".SH SETTINGS AND EXIT STATUS\n" + literal(settings_text());
}

}  // namespace

void declare_manual(ArgsSpec& args) {
  args.positional("DIR", "where the pages are written, as ndtrain.1, ndtrain-train.1 and so on");
}

int run_manual(Context& context, const Args& args) {
  const std::string directory = args.required("DIR");
  Fs& fs = context.fs();
  fs.make_directories(directory).or_throw();
  publish(fs, directory + "/ndtrain.1", main_page()).or_throw();
  for (const Verb& v : verbs()) {
    publish(fs, directory + "/" + page_of(v) + ".1", verb_page(v)).or_throw();
  }
  context.print(Json{{"directory", directory}, {"pages", verbs().size() + 1}},
                fmt::format("{} pages in {}\n", verbs().size() + 1, directory));
  return kOk;
}

}  // namespace ndtrain::cli
