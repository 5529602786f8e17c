# Writes OUTPUT, a C++ source that defines `plan::efficiency_files()`, from the YAML files given. Written again only
# when a file changes.
function(plan_embed_efficiency OUTPUT)
  set(text "#include \"presets/efficiency_files.hpp\"\n\nnamespace plan {\nnamespace {\nconstexpr EmbeddedEfficiency kFiles[] = {\n")
  foreach(file ${ARGN})
    file(READ ${file} content)
    get_filename_component(name ${file} NAME_WE)
    string(APPEND text "{\"${name}\", R\"yaml(${content})yaml\"},\n")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  endforeach()
  string(APPEND text "};\n}  // namespace\n\nstd::span<const EmbeddedEfficiency> efficiency_files() { return kFiles; }\n\n}  // namespace plan\n")
  file(GENERATE OUTPUT ${OUTPUT} CONTENT "${text}")
endfunction()
