// Package study repeats the simulations of three papers and measures what they
// left open:
//
//   - Yan & Cho, "Enhancing Collaborative Spam Detection with Bloom Filters"
//     (ACSAC 2006, and technical report CS-TR-973): Experiments 1 to 8 with
//     all tables and figures, the worked example, other hash functions, f_dcc on
//     real mail, merging, deletion, split storage, revocation, the speed of queries,
//     on the paper's arrays and on those that a node runs, with their theory;
//   - Jiang & Zhao, "A Study of Spam Determination Based on Improved Bloom
//     Filter": Figures 1 to 3 and the product formula;
//   - Finch, "What use are Bloom filters, anyway?" (2008): the table of false
//     positives.
//
// [Run] does all of it. The same seed gives the same numbers, times aside, whatever the
// number of workers. Each piece of work keeps its result in a file of its own: an
// interrupted run goes on where it stopped, and a run of more rounds keeps the rounds of
// the experiments that are there and measures the other parts again.
//
//	err := study.Run(ctx, study.Config{Out: "study-out", Rounds: 1000, Seed: 1})
package study
