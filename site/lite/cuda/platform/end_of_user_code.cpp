// Linked between the user's code and the runtime, so that site/lite/cuda/rewrite.js knows where the former ends.
extern "C" void gridstride_end_of_user_code() {}
