"""Algorithms as compositions of parts: one room per axis, one class per idea.

    advantage   rewards of a step        -> A per completion
    credit      A per completion         -> A per token
    ratio       log π and its anchor     -> log ρ per token
    surrogate   log ρ and A              -> J per token
    correction  log π_old and log μ      -> weight per token
    aggregation mask and the step totals -> weight of each token in the loss
    kl, entropy penalties and bonuses, in the loss or in the reward
    filter, overlong, shaping            which completions count, and what their length costs
    form        how the parts meet: policy gradient, likelihood, contrastive pairs

To add a variant: write one class under its equation in the room of its axis, name it in one file of `conf/<axis>/`, and
choose that file in an overlay `conf/algo/<name>.yaml`. Nothing else changes.

Parts compute with tensor methods, so that they are imported, and their numbers checked, without importing torch.
Masks are named by what True means: `mask`, True = counts. B completions, T tokens, R reward functions, K top tokens.
"""
