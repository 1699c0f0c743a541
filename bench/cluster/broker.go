package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats-server/v2/server"
)

// runBroker is a broker with JetStream on a free port of this machine, until ctx is done.
func runBroker(ctx context.Context, dir string) error {
	broker, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, SyncAlways: true, NoLog: true, NoSigs: true,
	})
	if err != nil {
		return err
	}
	broker.Start()
	if !broker.ReadyForConnections(timeout) {
		return errors.New("the broker does not start")
	}
	fmt.Println("listening on " + broker.ClientURL())
	<-ctx.Done()
	broker.Shutdown()
	broker.WaitForShutdown()
	return nil
}
