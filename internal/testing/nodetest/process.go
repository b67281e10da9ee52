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

// A Process is a running program.
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

// Start starts a program in a process group of its own. At the end of the test it is stopped,
// and its output is shown if the test failed, unless cmd already has an output.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	var output bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout, cmd.Stderr = &output, &output
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
		if t.Failed() && output.Len() > 0 {
			t.Logf("%s said:\n%.8000s", p.name(), output.String())
		}
	})
	return p
}

func (p *Process) name() string { return filepath.Base(p.cmd.Path) }

// Stop asks the process and its children to end, waits for it, and returns nil for an exit
// code of 0. If it has to be killed, the test fails. Stop may be called again.
func (p *Process) Stop() error {
	p.end.Do(func() {
		p.signal(syscall.SIGTERM)
		p.signal(syscall.SIGCONT) // it may be frozen
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

// Freeze stops the process and its children until Thaw, as a machine that hangs would.
func (p *Process) Freeze() { p.signal(syscall.SIGSTOP) }

// Thaw lets the process and its children go on after Freeze.
func (p *Process) Thaw() { p.signal(syscall.SIGCONT) }

// Exited returns a channel that is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// signal sends a signal to the whole group, which may be gone.
func (p *Process) signal(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) }
