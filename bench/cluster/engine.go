package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// startEngine starts a process that does not report when it is ready, and waits until it can be reached, or else ends
// it. Its output goes to a file next to its data.
func (c *installation) startEngine(ctx context.Context, dir string, n *node, reach func(context.Context) error) error {
	log, err := os.OpenFile(filepath.Join(dir, n.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	n.process.Stdout, n.process.Stderr = log, log
	if err := n.process.Start(); err != nil {
		return err
	}
	n.PID, n.ended = n.process.Process.Pid, make(chan struct{})
	go func() {
		_ = n.process.Wait()
		close(n.ended)
	}()
	if err := n.await(ctx, log.Name(), reach); err != nil {
		return errors.Join(err, n.stop())
	}
	c.Nodes = append(c.Nodes, n)
	return nil
}

// await waits until a process can be reached.
func (n *node) await(ctx context.Context, log string, reach func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		err := reach(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-n.ended:
			return fmt.Errorf("%s has ended; %s says why", n.Name, log)
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
