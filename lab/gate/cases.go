package gate

import (
	"context"
	"time"

	"github.com/bulkhead-mail/bulkhead/lab/load"
)

// A benchmark is one kind of request at one door.
type benchmark struct {
	name string
	// measure sends requests for about the time slice, and returns the processor time of the server for each.
	measure func(ctx context.Context, n *node, slice time.Duration) (time.Duration, error)
}

// Numbers of clients, of sockets and of different signatures. They keep a server of two processors
// busy and fit into a measurement of half a second.
const (
	clients = 8
	sockets = 2
	window  = 32
	known   = 20_000
)

func cases(mail [][]byte) []benchmark {
	all := []benchmark{
		overHTTP("check"),
		overHTTP("report"),
		pyzor("check"),
		pyzor("report"),
		dcc("report"),
		dcc("query"),
		fuzzy("write"), // before the checks, which look for what it wrote
		fuzzy("check"),
		fuzzy("near"),
		{"razor2 check", func(ctx context.Context, n *node, slice time.Duration) (time.Duration, error) {
			o := load.Razor2{Options: options(slice), Address: n.at(razorPort), Known: known, Rows: 1}
			return perRequest(ctx, n, o.Options, o.Connect)
		}},
		{"policy", func(ctx context.Context, n *node, slice time.Duration) (time.Duration, error) {
			o := load.Policy{Options: options(slice), Address: n.at(policyPort), Accounts: 1000}
			return perRequest(ctx, n, o.Options, o.Connect)
		}},
		milter("2 kB", load.Milter{Size: 2_000}),
		milter("20 kB", load.Milter{Size: 20_000}),
	}
	if len(mail) > 0 {
		all = append(all, milter("whole mail", load.Milter{Mail: mail}))
	}
	return all
}

func options(slice time.Duration) load.Options {
	return load.Options{Clients: clients, Duration: slice}
}

func datagrams(n *node, port int, slice time.Duration) load.Datagrams {
	return load.Datagrams{Address: n.at(port), Sockets: sockets, Window: window, Duration: slice, Pid: n.pid()}
}

func overHTTP(op string) benchmark {
	return benchmark{"http " + op, func(ctx context.Context, n *node, slice time.Duration) (time.Duration, error) {
		o := load.HTTP{Options: options(slice), Address: n.at(httpPort), Op: op, Token: n.token, Known: known}
		return perRequest(ctx, n, o.Options, o.Connect)
	}}
}

func pyzor(op string) benchmark {
	return benchmark{"pyzor " + op, func(ctx context.Context, n *node, slice time.Duration) (time.Duration, error) {
		o := load.Pyzor{Datagrams: datagrams(n, pyzorPort, slice), Op: op, Known: known}
		if err := o.Prepare(); err != nil {
			return 0, err
		}
		return perDatagram(ctx, &o.Datagrams)
	}}
}

func dcc(op string) benchmark {
	return benchmark{"dcc " + op, func(ctx context.Context, n *node, slice time.Duration) (time.Duration, error) {
		const anonymous = 1
		o := load.DCC{Datagrams: datagrams(n, dccPort, slice), Op: op, Id: anonymous, Known: known}
		if err := o.Prepare(); err != nil {
			return 0, err
		}
		return perDatagram(ctx, &o.Datagrams)
	}}
}

func fuzzy(op string) benchmark {
	return benchmark{"fuzzy " + op, func(ctx context.Context, n *node, slice time.Duration) (time.Duration, error) {
		o := load.Fuzzy{
			Datagrams: datagrams(n, fuzzyPort, slice), Op: op, Shingles: op == "write", Equal: 26, Known: known, Flag: 1,
		}
		if err := o.Prepare(); err != nil {
			return 0, err
		}
		return perDatagram(ctx, &o.Datagrams)
	}}
}

func milter(what string, o load.Milter) benchmark {
	return benchmark{"milter " + what, func(ctx context.Context, n *node, slice time.Duration) (time.Duration, error) {
		o.Options, o.Address = load.Options{Clients: 1, Duration: slice}, n.at(milterPort)
		return perRequest(ctx, n, o.Options, o.Connect)
	}}
}
