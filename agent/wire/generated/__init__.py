"""The wire's layouts and numbers for programs in C and Lua."""
