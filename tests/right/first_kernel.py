from . import right


@right('first_kernel.blur')
def adds_in_a_variable(i, x, out, h, w):
    if i < h*w:
        ...
        total,count = x[i],1
        if i%w > 0: total += x[i-1]; count += 1
        if i%w < w-1: total += x[i+1]; count += 1
        out[i] = total/count

@right('first_kernel.flip')
def scatters(i, x, out, h, w):
    if i < h*w: out[i//w*w + w-1 - i%w] = x[i]
