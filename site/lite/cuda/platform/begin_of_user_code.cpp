// Linked before the user's code, which is linked after the runtime: constructors run in this order.
extern "C" void gridstride_begin_of_user_code() {}
