// Package real judges the program by what its users see: it runs released-like processes of
// bulkhead, hands them whole mail through their front doors, reports mail in the ways that the
// program ships, moves the clocks of the processes, and counts what was called spam.
//
//	program, err := real.Build(ctx, dir, "")
//	world := real.NewWorld(seed, 20_000)
//	result, err := real.Run(ctx, program, world.Plan(), real.Options{})
//
// The mail is made up. A [World] is a set of parameters, each drawn from a distribution; its
// [Plan] is a list of timed deliveries, which does not depend on who judges them. [Quick] plays
// the same plan in the engine of this process, for comparison. [Collection] makes a plan of
// real mail.
package real
