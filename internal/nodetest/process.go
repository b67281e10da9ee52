package nodetest

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A Process is a program that runs.
type Process struct {
	t      testing.TB
	cmd    *exec.Cmd
	end    sync.Once
	exited chan struct{}
	err    error // of the exit
}

// Run starts a program with dir as its folder; see [Start].
func Run(t testing.TB, dir, path string, args ...string) *Process {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	return Start(t, cmd)
}

// Start starts a program in a process group of its own. The test's end stops it,
// and shows what it said if the test failed; what it says elsewhere, because cmd
// has an output already, is the caller's.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	var said bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout, cmd.Stderr = &said, &said
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &Process{t: t, cmd: cmd, exited: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.Stop()
		if t.Failed() && said.Len() > 0 {
			t.Logf("%s said:\n%.8000s", p.name(), said.String())
		}
	})
	return p
}

func (p *Process) name() string { return filepath.Base(p.cmd.Path) }

// Stop asks the process and its children to end, and returns once it has ended:
// nil for an exit code of 0. If it has to be killed for that, the test has failed.
// What has ended already stays so.
func (p *Process) Stop() error {
	p.end.Do(func() {
		p.signal(syscall.SIGTERM)
		select {
		case <-p.exited:
		case <-time.After(Patience):
			p.signal(syscall.SIGKILL)
			<-p.exited
			p.t.Errorf("%s had to be killed", p.name())
		}
	})
	return p.err
}

// Kill ends the process and its children as a crash would.
func (p *Process) Kill() {
	p.end.Do(func() {
		p.signal(syscall.SIGKILL)
		<-p.exited
	})
}

// signal tells the whole group, which may be gone.
func (p *Process) signal(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) }
