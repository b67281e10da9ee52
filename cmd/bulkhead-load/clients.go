package main

import (
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/loadgen"
)

// loadFlags adds the flags that bound a run.
func loadFlags(cmd *cobra.Command, o *loadgen.Options, clients int) {
	f := cmd.Flags()
	f.IntVar(&o.Clients, "clients", clients, "clients at once, each on a connection of its own")
	f.DurationVar(&o.Duration, "duration", 5*time.Second, "measured time")
	f.DurationVar(&o.Warmup, "warmup", time.Second, "time before that, not counted")
}

// measure runs clients on connections of their own and prints what they saw.
func measure(cmd *cobra.Command, what string, o loadgen.Options, connect func(int) (loadgen.Client, error)) error {
	res, err := loadgen.Run(cmd.Context(), o, connect)
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s, %d clients: %v\n", what, o.Clients, res)
	return failure(res)
}

// failure returns the error of requests that failed, if any did.
func failure(r *loadgen.Result) error {
	if r.First == nil {
		return nil
	}
	return fmt.Errorf("%d of %d requests failed, one of them: %w", r.Errors, r.Errors+r.Requests, r.First)
}

// dialLocal connects to a loopback address or a unix socket.
func dialLocal(network, address string) (net.Conn, error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return net.Dial("unix", path)
	}
	if err := loadgen.LoopbackOnly(address); err != nil {
		return nil, err
	}
	return net.Dial(network, address)
}

// processorTime returns what a process has used; 0 if that cannot be told.
func processorTime(pid int) time.Duration {
	if pid == 0 {
		return 0
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// After the name in parentheses come the fields from the third on.
	_, rest, _ := strings.Cut(string(stat), ") ")
	var state string
	var skip int64
	var user, system int64
	if _, err := fmt.Sscan(rest, &state, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &user, &system); err != nil {
		return 0
	}
	const tick = time.Second / 100 // USER_HZ
	return time.Duration(user+system) * tick
}
