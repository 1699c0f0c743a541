package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
)

// brokers is the number of brokers: the minimum that tolerates the loss of one.
const brokers = 3

// startBrokers starts the brokers, and returns their URLs.
func startBrokers(dir string, start func(name string, args ...string) (url string, err error)) (urls []string, err error) {
	routes, err := freePorts(brokers)
	if err != nil {
		return nil, err
	}
	for n := range brokers {
		name := fmt.Sprintf("broker-%d", n+1)
		port, err := keptPort(dir, name)
		if err != nil {
			return nil, err
		}
		url, err := start(name, "-broker", filepath.Join(dir, name), "-number", strconv.Itoa(n), "-routes", strings.Join(routes, ","), "-port", port)
		if err != nil {
			return nil, err
		}
		urls = append(urls, url)
	}
	return urls, nil
}

// keptPort returns the port of a process, which it has also after a restart of the cluster, unless another program has taken it.
func keptPort(dir, name string) (string, error) {
	file := filepath.Join(dir, name+".port")
	if kept, err := os.ReadFile(file); err == nil {
		if l, err := net.Listen("tcp", "127.0.0.1:"+string(kept)); err == nil {
			return string(kept), l.Close()
		}
	}
	ports, err := freePorts(1)
	if err != nil {
		return "", err
	}
	return ports[0], os.WriteFile(file, []byte(ports[0]), 0o600)
}

// freePorts returns ports of this machine on which nothing listened a moment ago.
func freePorts(n int) (ports []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() //nolint:gocritic // all at the end, so that no port is returned twice
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}

// broker is one of the brokers, with JetStream.
type broker struct {
	dir    string
	number int
	port   int    // for nodes
	routes string // ports for connections between brokers, separated by commas and indexed by number
}

// run runs it until ctx is done.
func (b *broker) run(ctx context.Context) error {
	routes := strings.Split(b.routes, ",")
	if b.number < 0 || b.number >= len(routes) {
		return fmt.Errorf("there is no broker %d", b.number)
	}
	own, err := strconv.Atoi(routes[b.number])
	if err != nil {
		return err
	}
	options := server.Options{
		ServerName: filepath.Base(b.dir), Host: "127.0.0.1", Port: b.port,
		Cluster:   server.ClusterOpts{Name: "mneme", Host: "127.0.0.1", Port: own},
		JetStream: true, StoreDir: b.dir, SyncAlways: true, NoLog: true, NoSigs: true,
	}
	for _, port := range routes {
		options.Routes = append(options.Routes, &url.URL{Scheme: "nats", Host: "127.0.0.1:" + port})
	}
	s, err := server.NewServer(&options)
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(timeout) {
		return errors.New("the broker did not start")
	}
	fmt.Println("listening on " + s.ClientURL())
	<-ctx.Done()
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}
