package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// A stage is a part of a node that starts after the stages before it and stops before them.
type stage struct {
	name  string
	start func(ctx context.Context, st *stage) error
	tasks []task
	// close frees the resources of the stage, after all its tasks have ended; nil if there are
	// none.
	close func(ctx context.Context) error

	end     context.CancelFunc // nil while nothing runs
	running sync.WaitGroup
	mu      sync.Mutex
	errs    []error // of the tasks, once the stage is stopped
}

// A task runs while the node serves.
type task struct {
	name string
	run  func(ctx context.Context) error // until ctx ends
	// abandon frees the resources of the task if it never runs; nil for none.
	abandon func() error
}

// run starts all tasks. The first task of any stage that ends by itself sends its error to failed.
func (st *stage) run(ctx context.Context, failed chan<- error) {
	ctx, st.end = context.WithCancel(ctx)
	for _, t := range st.tasks {
		st.running.Go(func() {
			err := t.run(ctx)
			switch {
			case ctx.Err() != nil:
				st.mu.Lock()
				st.errs = append(st.errs, err)
				st.mu.Unlock()
				return
			case err == nil:
				err = fmt.Errorf("node: %s ended by itself", t.name)
			}
			select {
			case failed <- err:
			default: // another one was first
			}
		})
	}
}

// stop ends all tasks at once, waits for them and closes the stage.
func (st *stage) stop(ctx context.Context) error {
	if st.end == nil {
		for _, t := range st.tasks {
			if t.abandon != nil {
				st.errs = append(st.errs, t.abandon())
			}
		}
	} else {
		st.end()
		st.running.Wait()
	}
	if st.close != nil {
		st.errs = append(st.errs, st.close(ctx))
	}
	return errors.Join(st.errs...)
}
