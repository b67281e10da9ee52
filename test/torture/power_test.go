//go:build interop

package torture

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// TestPower has the node on a disk that fails, and whose power is cut. It goes on until
// its time is over.
func TestPower(t *testing.T) {
	v := newVictim(t, "", settings)
	d := newDisk(t, rand.New(rand.NewPCG(v.rng.Uint64(), 0)))
	v.data = filepath.Join(d.where, "data")
	kinds := []string{"power cut in use"}
	v.torture(20*time.Second, kinds, func() {
		switch v.rng.IntN(8) {
		case 0:
			v.cutStart(d)
		case 1, 2, 3:
			v.cutUse(d)
		case 4:
			v.ailStart(d)
		default:
			v.ailUse(d)
		}
	})
	v.finish(kinds)
}

// cutStart cuts the power while the node starts.
func (v *victim) cutStart(d *disk) {
	d.cutAfter(v.rng.IntN(60))
	p := nodetest.Run(v.t, v.dir, v.bin, "serve", "--config", "node.toml", "--data", v.data)
	runFor(time.Duration(v.rng.IntN(400)) * time.Millisecond)
	p.Kill()
	v.faults["power cut during a start"]++
	d.boot(v.t)
}

// cutUse cuts the power at a random moment, or when the node has changed a random number
// of things on the disk. The node is given time to notice, or none.
func (v *victim) cutUse(d *disk) {
	p := v.serve()
	v.compare("after a power cut")
	changes, pause, ends := v.rng.IntN(3000), v.someTime(1500), v.rng.IntN(3)
	end := v.begin()
	switch ends {
	case 0:
		runFor(pause)
		p.Kill()
	case 1:
		runFor(pause)
		d.cut()
	default:
		d.cutAfter(changes)
		await.Within(2*time.Second, d.isDead)
		d.cut()
	}
	p.Kill()
	end()
	v.faults["power cut in use"]++
	d.boot(v.t)
}

func (v *victim) someTime(most int) time.Duration {
	return time.Duration(20+v.rng.IntN(most)) * time.Millisecond
}

// someFault returns what a disk does when it fails, is full, or was mounted again so that it
// can only be read.
func (v *victim) someFault() fault {
	f := fault{errno: []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EROFS}[v.rng.IntN(3)],
		share: []float64{0.03, 0.3, 1}[v.rng.IntN(3)]}
	f.reads = f.errno == syscall.EIO && v.rng.IntN(3) == 0
	return f
}

func (f fault) String() string {
	what := "changes"
	if f.reads {
		what = "reads"
	}
	return fmt.Sprintf("%s of %s", unix.ErrnoName(f.errno), what)
}

// ailStart starts the node on a disk that fails. It may refuse to, but must not make
// anything worse.
func (v *victim) ailStart(d *disk) {
	f := v.someFault()
	d.ail(f)
	p := nodetest.Run(v.t, v.dir, v.bin, "serve", "--config", "node.toml", "--data", v.data)
	runFor(v.someTime(600))
	v.faults[f.String()] += d.ail(fault{})
	p.Kill()
	p = v.serve()
	v.compare("after a start with " + f.String())
	p.Kill()
	v.faults["starts on a disk that fails"]++
}

// ailUse has the disk fail for a while. Then the node must go on by itself, unless it is
// killed or the power is cut.
func (v *victim) ailUse(d *disk) {
	p := v.serve()
	v.compare("before a disk fails")
	f, pause, ends := v.someFault(), v.someTime(1500), v.rng.IntN(3)
	end := v.begin()
	d.ail(f)
	runFor(pause)
	if ends == 0 {
		d.cut()
	}
	if ends <= 1 {
		p.Kill()
	}
	v.faults[f.String()] += d.ail(fault{})
	end()
	v.faults["times that the disk failed in use"]++
	if ends == 0 {
		v.faults["power cut of a disk that fails"]++
		d.boot(v.t)
	}
	if ends <= 1 {
		return
	}
	v.await("the node after "+f.String(), func() bool {
		v.sent[0]++
		if err := v.client.Count(v.t.Context(), v.sigs[:1], []uint32{1}); err != nil {
			return false
		}
		v.acked[0]++
		return true
	})
	v.settled()
	v.compare("after " + f.String())
	p.Kill()
	v.faults["times that the node went on by itself"]++
}
