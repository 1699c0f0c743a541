package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/mnemeproxy/mneme/server/config"
	"github.com/mnemeproxy/mneme/store/catalog/pack/s3test"
)

const (
	s3Name     = "s3"     // of the service in cluster.json
	bucketName = "memory" // of the centre's bucket there
)

// startS3 starts the S3 service for the bodies of a centre with Postgres. It returns the value of centre.bodies, and
// the environment by which the centre finds the service. If none was built, or it does not run, the bodies stay in the
// database.
func (c *installation) startS3(ctx context.Context, dir string) (bodies string, environment map[string]string, err error) {
	data := filepath.Join(dir, s3Name)
	begun := exists(data)
	if s3test.Program() == "" {
		if begun {
			return "", nil, fmt.Errorf("%s has bodies of exchanges, but there is no S3 service to read them: build one with make s3-server", data)
		}
		fmt.Println("no S3 service was built (make s3-server says why); bodies of exchanges stay in Postgres")
		return config.InPostgres, nil, nil
	}
	key, err := secret(filepath.Join(dir, "aws_secret_access_key"))
	if err != nil {
		return "", nil, err
	}
	port, err := keptPort(dir, s3Name)
	if err != nil {
		return "", nil, err
	}
	if err := os.MkdirAll(filepath.Join(data, bucketName), 0o700); err != nil {
		return "", nil, err
	}
	address := net.JoinHostPort("127.0.0.1", port)
	n := &node{Name: s3Name, URL: "http://" + address, process: s3test.Command(address, data, key)}
	err = c.startEngine(ctx, dir, n, func(ctx context.Context) error {
		connection, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			err = connection.Close()
		}
		return err
	})
	if err != nil && !begun && ctx.Err() == nil { // such as on a file system without extended attributes
		fmt.Println("no S3 service, bodies of exchanges stay in Postgres:", err)
		return config.InPostgres, nil, os.RemoveAll(data)
	}
	return "s3://" + bucketName, s3test.Environment(address, key), err
}
