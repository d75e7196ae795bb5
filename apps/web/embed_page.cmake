# Makes one source of the page's parts: FOLDER has them, OUT is written.
foreach(part page.html page.css charts.js graph.js page.js)
  file(READ "${FOLDER}/${part}" text)
  if(part STREQUAL page.html)
    set(page "${text}")
  else()
    string(REPLACE "/* ${part} */" "${text}" page "${page}")
  endif()
endforeach()
file(WRITE "${OUT}" "#include \"apps/web/feed.hpp\"\n\nnamespace troupe::apps::web {\n\n"
                    "const char* const page = R\"page(${page})page\";\n\n} // namespace troupe::apps::web\n")
