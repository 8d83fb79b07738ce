# cmake -D OUT=file.cpp -D FILES=a,b -P embed_files.cmake: the files as dashboard_files().
string(REPLACE "," ";" FILES "${FILES}")
set(arrays "")
set(entries "")
set(i 0)
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME)
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
  string(APPEND arrays "constexpr char k${i}[] = {${bytes}};\n")
  string(APPEND entries "    {\"${name}\", {k${i}, sizeof k${i}}},\n")
  math(EXPR i "${i} + 1")
endforeach()
file(WRITE ${OUT} "#include \"tuner/http/dashboard_files.h\"

namespace ndtrain::tuner {
namespace {

${arrays}
constexpr DashboardFile kFiles[] = {
${entries}};

}  // namespace

std::span<const DashboardFile> dashboard_files() { return kFiles; }

}  // namespace ndtrain::tuner
")
