package pack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// bucket is a folder of a bucket.
type bucket struct {
	client       minio.Core
	name, folder string
}

var (
	errExists  = errors.New("an object of that name exists")
	errMissing = errors.New("there is no such object")
)

// retries is how often a failed request is made.
const retries = 3

// Environment variables for the address and credentials of the service, as other S3 clients use them.
const (
	envEndpoint   = "AWS_ENDPOINT_URL"
	envEndpointS3 = "AWS_ENDPOINT_URL_S3"
	envRegion     = "AWS_REGION"
	amazon        = "https://s3.amazonaws.com"
)

// openBucket parses a URL of the form s3://BUCKET/PREFIX. It sends no request.
func openBucket(address, folder string) (*bucket, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "s3" || u.Host == "" || u.Host != u.Hostname() || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("write s3://BUCKET or s3://BUCKET/PREFIX; the address of the service comes from " + envEndpoint + ", credentials from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	}
	at := firstSet(envEndpointS3, envEndpoint)
	if at == "" {
		at = amazon
	}
	service, err := url.Parse(at)
	if err != nil || service.Scheme != "http" && service.Scheme != "https" || service.Host == "" || strings.Trim(service.Path, "/") != "" {
		return nil, fmt.Errorf("%s is not the address of a service: write https://HOST", envEndpoint)
	}
	client, err := minio.NewCore(service.Host, &minio.Options{
		Creds: credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{},
		}),
		Secure: service.Scheme == "https", Region: firstSet(envRegion, "AWS_DEFAULT_REGION"), MaxRetries: retries,
	})
	if err != nil {
		return nil, err
	}
	return &bucket{*client, u.Host, path.Join(strings.Trim(u.Path, "/"), folder)}, nil
}

func firstSet(names ...string) string {
	for _, name := range names {
		if value := os.Getenv(name); value != "" {
			return value
		}
	}
	return ""
}

// put writes an object; errExists if there is one of that name, which stays unchanged.
func (b *bucket) put(ctx context.Context, key string, content []byte) error {
	var once minio.PutObjectOptions
	once.SetMatchETagExcept("*")
	sum := sha256.Sum256(content)
	_, err := b.client.PutObject(ctx, b.name, b.path(key), bytes.NewReader(content), int64(len(content)), "", hex.EncodeToString(sum[:]), once)
	if minio.ToErrorResponse(err).StatusCode == http.StatusPreconditionFailed {
		return errExists
	}
	return err
}

// read returns a range of an object, shorter if the object ends before; errMissing if there is none.
func (b *bucket) read(ctx context.Context, key string, at, size int) ([]byte, error) {
	var stretch minio.GetObjectOptions
	if err := stretch.SetRange(int64(at), int64(at+size-1)); err != nil {
		return nil, err
	}
	body, info, _, err := b.client.GetObject(ctx, b.name, b.path(key), stretch)
	switch minio.ToErrorResponse(err).Code {
	case minio.NoSuchKey:
		return nil, errMissing
	case minio.InvalidRange:
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	content := make([]byte, min(int64(size), max(info.Size, 0)))
	_, err = io.ReadFull(body, content)
	return content, err
}

// remove deletes an object, if it exists.
func (b *bucket) remove(ctx context.Context, key string) error {
	err := b.client.RemoveObject(ctx, b.name, b.path(key), minio.RemoveObjectOptions{})
	if minio.ToErrorResponse(err).Code == minio.NoSuchKey { // some services say so of what another process is deleting
		return nil
	}
	return err
}

func (b *bucket) path(key string) string { return path.Join(b.folder, key) }
