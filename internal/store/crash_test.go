package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const crashChild = "BULKHEAD_STORE_CRASH_DIR"

// TestMain runs the victim of TestKill if the environment asks for it.
func TestMain(m *testing.M) {
	if dir := os.Getenv(crashChild); dir != "" {
		err := victim(dir)
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// victim appends entries and makes checkpoints until it is killed. It prints the index of every
// entry after it was acknowledged.
func victim(dir string) error {
	s, err := Open(dir, Options{SegmentBytes: 200_000})
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() {
		for {
			last := s.LastIndex()
			content := func(w io.Writer) error {
				_, err := io.WriteString(w, strings.Repeat(fmt.Sprintln(last), 30_000))
				return err
			}
			if err := s.Checkpoint(context.Background(), last+1, []byte(fmt.Sprint(last)),
				[]File{{"state", content}}); err != nil {
				failed <- err
				return
			}
		}
	}()
	for {
		select {
		case err := <-failed:
			return err
		default:
		}
		next := s.LastIndex() + 1
		index, err := s.Append(entry(next, int(next*7919%20_000)))
		if err != nil || index != next {
			return fmt.Errorf("append %d: %d, %w", next, index, err)
		}
		if _, err := fmt.Println(index); err != nil {
			return err
		}
	}
}

// TestKill kills a process that appends and makes checkpoints with SIGKILL, 40 times. Every entry
// that it had acknowledged must exist: below Start in the checkpoint, and from there on in the
// journal.
func TestKill(t *testing.T) {
	rounds := 40
	if testing.Short() {
		rounds = 10
	}
	dir := filepath.Join(t.TempDir(), "store") // on a disk
	rng := rand.New(rand.NewPCG(uint64(os.Getpid()), uint64(time.Now().UnixNano())))
	var acked uint64
	for range rounds {
		acked = max(acked, killOne(t, dir, rng.IntN(40)))
		s := open(t, dir, Options{})
		m := s.Manifest()
		if s.LastIndex() < acked || s.LastIndex() > acked+1 {
			t.Fatalf("last index %d, %d was acknowledged", s.LastIndex(), acked)
		}
		acked = s.LastIndex()
		if m.Checkpoint > 0 {
			want := strings.Repeat(fmt.Sprintln(m.Start-1), 30_000)
			if got := readFile(t, s, "state"); string(m.Meta) != fmt.Sprint(m.Start-1) || got != want {
				t.Fatalf("checkpoint %d: start %d, metadata %s, %d bytes", m.Checkpoint, m.Start, m.Meta, len(got))
			}
		}
		next := m.Start
		err := s.Replay(t.Context(), m.Start, func(i uint64, e []byte) error {
			if i != next || string(e) != string(entry(i, int(i*7919%20_000))) {
				return fmt.Errorf("entry %d, want %d: %.40q", i, next, e)
			}
			next++
			return nil
		})
		if err != nil || next != acked+1 {
			t.Fatalf("replay from %d ended before %d: %v", m.Start, next, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d entries after %d kills", acked, rounds)
}

// killOne lets a victim acknowledge the given number of entries, kills it after a further random
// time, and returns the last index that it acknowledged.
func killOne(t *testing.T, dir string, entries int) uint64 {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashChild+"="+dir)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var last uint64
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		if last, err = strconv.ParseUint(lines.Text(), 10, 64); err != nil {
			t.Errorf("victim printed %q", lines.Text())
		}
		if n == entries {
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != -1 {
		t.Fatalf("victim was not killed: %v, %s", err, stderr.String())
	}
	return last
}
