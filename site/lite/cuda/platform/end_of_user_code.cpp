// Linked after the user's code: rewrite.js changes the functions between this one and gridstride_begin_of_user_code.
extern "C" void gridstride_end_of_user_code() {}
