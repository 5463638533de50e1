"Why each cheat has to be rejected, on the CPU and on a GPU; another reason would be luck."

REASONS = dict(
    cached_by_content='replay', cached_by_pointer='replay', cached_by_shape='replay', constant='constant',
    counts_calls='wrong later', falls_back='fallback', fewer_digits='precision', freed_memory='unwritten',
    imports_reference='reference', kernel_for_show='fallback', known_seed='seed', lazy_method='subclass',
    lazy_tensor='subclass', looks_into_frames='inspected', looks_through_objects='inspected',
    only_public_sizes='shapes',
    patches_check='patched', patches_judge='patched', patches_timer='patched', process_stays='late',
    returns_input='alias', side_stream='stream', thread_finishes_later='late', zeroes_inputs='inputs',
)
# A GPU shows work on another stream by what it does: how long it runs, or the output that is not there yet
MORE_REASONS = dict(process_stays=('clock',), side_stream=('late', 'replay', 'wrong later', 'unwritten'))


def reasons_for(name, on_gpu):
    "The reasons for which a cheat may be rejected"
    return (REASONS[name], *(MORE_REASONS.get(name, ()) if on_gpu else ()))
