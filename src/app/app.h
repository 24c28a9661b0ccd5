/* app/app.h - what the files of the program share. */
#ifndef FT_APP_H
#define FT_APP_H

#include <lua.h>

#include "script/script.h"

/* What tools/embed.cmake made of lua/, argparse and assets/. */
extern const script_file app_modules[];
extern const script_file app_assets[];

/* Pushes read_line(prompt), a Lua function: one line of the terminal without its newline; nil at
 * the end of input; false when Ctrl-C dropped the line. `interrupt` is the flag of the signal
 * handler. */
void app_push_reader(lua_State *L, volatile sig_atomic_t *interrupt);

#endif
