from . import right


@right('01.blur')
def adds_in_a_variable(i, x, out, h, w):
    if i < h*w:
        ...
        total,count = x[i],1
        if i%w > 0: total += x[i-1]; count += 1
        if i%w < w-1: total += x[i+1]; count += 1
        out[i] = total/count

@right('01.flip')
def scatters(i, x, out, h, w):
    if i < h*w: out[i//w*w + w-1 - i%w] = x[i]
