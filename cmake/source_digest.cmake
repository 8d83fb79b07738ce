# cmake -D OUT=file -D MACRO=name -D VERSION=text -D FILES=a,b -P source_digest.cmake: a header with
# #define MACRO "VERSION+digest of the files".
string(REPLACE "," ";" FILES "${FILES}")
set(digests "")
foreach(file IN LISTS FILES)
  file(SHA256 ${file} digest)
  string(APPEND digests ${digest})
endforeach()
string(SHA256 digest "${digests}")
string(SUBSTRING ${digest} 0 8 digest)
file(WRITE ${OUT} "#define ${MACRO} \"${VERSION}+${digest}\"\n")
