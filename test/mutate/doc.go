// Command mutate changes one small thing in the code of a package, runs the package's tests, and
// reports the changes that no test noticed.
//
//	go run ./test/mutate [-n 60] [-seed 1] [-min 0] [-short] [-skip TESTS] [-with PACKAGES] [-list] [-v] PACKAGE...
//
// A change turns a comparison round or shifts its bound, swaps && and || or an
// arithmetic operator, makes a condition always true or false, negates a
// boolean result, changes a number by one, or leaves a statement out. All
// changes are compiled into one test binary as switches, of which an
// environment variable selects one. The compiler reads the changed files as an
// overlay: no file of the tree is touched, and several runs may share it.
//
// With -with, the tests of other packages follow, of those that use the package.
//
// Where the tests of a package take long, the short ones are run first, then those that
// noticed another change of the same file, then the others.
//
// Some kinds of change are left out, because they change nothing that a test could notice: texts of
// logs and errors, the sizes of buffers that grow and of channels of empty structs, which are signals,
// calls of runtime.Gosched, whether a bound with a tolerance named slack is itself included, and zeros
// and falses returned beside an error that is not nil: one that the statement makes, a sentinel, or one
// that the surrounding condition compared with nil. Counts of Read, Write and their relatives do count.
//
// Of all possible changes of a package a sample of -n is tried, drawn from -seed; 0 tries
// all. The score is the share that made a test fail, or made the tests run longer than five
// times as long as usual and ten seconds. A change that does not compile does not count. A
// change in a line that no test runs counts as unnoticed. With a sample the score is an
// estimate, and its 95 % interval (Wilson) is printed beside it. With -short or -skip it is
// the score of the remaining tests; all together notice as much or more.
//
// The exit code is 0, or 1 if a score is below -min, or 2 if something else
// went wrong.
package main
