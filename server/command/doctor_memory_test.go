package command

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/config"
	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/pack/s3test"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
)

// expect sees that the doctor finds one thing in a check.
func expect(t *testing.T, found finding, state, says string) {
	t.Helper()
	if found.State != state || !strings.Contains(found.Found, says) || strings.Contains(found.Found, "hunter2") {
		t.Errorf("%+v, want %s, %q", found, state, says)
	}
}

func TestTheDoctorLooksAtTheDatabaseOfTheCentre(t *testing.T) {
	at := postgrestest.Start(t, true).Database(t)
	db, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(t.Context()) }()
	do := func(statements ...string) {
		t.Helper()
		for _, statement := range statements {
			if _, err := db.Exec(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
	}
	look := func(state, says string) {
		t.Helper()
		cfg := config.Default()
		cfg.Centre.Postgres = config.Secret(at)
		found := examineMemory(t.Context(), &cfg)
		if len(found) != 1 {
			t.Fatalf("%+v, want what there is to say of the database alone", found)
		}
		expect(t, found[0], state, says)
	}
	look(warning, "without tables")
	kept, err := catalog.Open(t.Context(), catalog.Options{URL: at, Centre: "one", Cache: engineForAccounts(t).Shared()})
	if err != nil {
		t.Fatal(err)
	}
	kept.Close()
	condition, err := catalog.Examine(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	look(warning, fmt.Sprintf("tables of version %d, synchronous_commit on, no synchronous standby", condition.Known))
	do("alter role mneme set synchronous_commit = off")
	look(problem, "a crash loses what edges no longer keep")
	do("alter role mneme reset synchronous_commit", "alter role mneme set default_transaction_read_only = on")
	look(problem, "read-only")
	do("alter role mneme reset default_transaction_read_only")
	at += "&pool_max_conns=8" // which is for the centre, and not for the server
	look(warning, "no synchronous standby")

	do("alter system set synchronous_standby_names = 'second'", "select pg_reload_conf()")
	inForce := func(sql string) {
		t.Helper()
		for deadline, there := time.Now().Add(time.Minute), false; !there; time.Sleep(10 * time.Millisecond) {
			if err := db.QueryRow(t.Context(), sql).Scan(&there); err != nil || time.Now().After(deadline) {
				t.Fatalf("not so: %s (%v)", sql, err)
			}
		}
	}
	inForce("select current_setting('synchronous_standby_names') = 'second'")
	look(problem, "which is not connected")
	standby(t, strings.TrimSuffix(at, "&pool_max_conns=8"))
	inForce("select exists (select from pg_stat_replication where sync_state = 'sync')")
	look(good, "synchronous standby second")
	do("create role plain login", "grant usage on schema mneme to plain", "grant select on mneme.meta to plain")
	own := at
	at = strings.Replace(own, "mneme@", "plain@", 1)
	look(good, "may not see whether it is connected")
	at = own
	do("update mneme.meta set value = '99' where name = 'version'")
	look(problem, fmt.Sprintf("this program knows versions up to %d", condition.Known))
	at = "postgres://mneme:hunter2@127.0.0.1:1/memory"
	look(problem, "cannot be reached")
	at = "postgres://mneme:hunter2@127.0.0.1:port/memory"
	look(problem, "not the URL of a Postgres database")
}

// The doctor is asked where the centre or a worker is configured: both need the embedder that made the vectors.
func TestTheDoctorComparesTheEmbedderWithTheVectorsOfTheCentre(t *testing.T) {
	cfg := config.Default()
	cfg.Centre.Postgres = config.Secret(postgrestest.Start(t, false).Database(t))
	routes, err := router.New(cfg.Router())
	check(t, err)
	defer routes.Close()
	cfg.Search.Embedder.Model, cfg.Search.Embedder.Dimensions = config.LocalHash, 256
	kept, err := catalog.Open(t.Context(), catalog.Options{URL: cfg.Centre.Postgres.Reveal(), Centre: "one", Cache: engineForAccounts(t).Shared()})
	check(t, err)
	defer kept.Close()
	nothing := func() {
		t.Helper()
		if found := examineVectors(t.Context(), &cfg, routes); found != nil {
			t.Errorf("without vectors or an embedder it finds %+v", found)
		}
	}
	nothing()
	embedder, err := cfg.Search.Embedder.Local()
	check(t, err)
	check(t, catalog.VectorsOf(kept).Start(t.Context(), embedder))
	look := func(state, says string) {
		t.Helper()
		found := examineVectors(t.Context(), &cfg, routes)
		if len(found) != 1 {
			t.Fatalf("%+v, want what there is to say of the vectors", found)
		}
		expect(t, found[0], state, says)
	}
	look(good, "made by local-hash-v1/256")
	cfg.Search.Embedder.Dimensions = 512
	look(warning, "made by local-hash-v1/256; with local-hash-v1/512 nothing is embedded")
	cfg.Search.Embedder.Model = config.NoEmbedder
	nothing()
}

// standby has a process receive all that a server writes, which is all that is asked of a synchronous standby.
func standby(t *testing.T, at string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "mneme-standby-")
	if err != nil {
		t.Fatal(err)
	}
	if err := postgrestest.HandOver(dir); err != nil {
		t.Fatal(err)
	}
	process := postgrestest.Command("pg_receivewal", "--synchronous", "--directory", dir, "--dbname", at+"&application_name=second")
	process.Dir = dir
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(process); _ = os.RemoveAll(dir) })
}

func end(process *exec.Cmd) {
	_ = process.Process.Kill()
	_ = process.Wait()
}

func TestTheDoctorLooksAtTheBucketOfTheCentre(t *testing.T) {
	t.Setenv("VGW_VERSIONING_DIR", t.TempDir())
	server := s3test.Start(t)
	bucket := server.Bucket(t)
	look := func(bucket, state, says string) {
		t.Helper()
		expect(t, examineBucket(t.Context(), bucket), state, says)
	}
	look(bucket+"/cell-3", good, "keeps no former versions")
	look("s3://absent", problem, "bucket absent cannot be written")
	look("https://absent", problem, "s3://BUCKET")
	if left := server.Files(t, bucket); len(left) > 0 {
		t.Errorf("the doctor leaves %q", left)
	}

	service, err := url.Parse(os.Getenv("AWS_ENDPOINT_URL_S3"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := minio.New(service.Host, &minio.Options{Creds: credentials.NewEnvAWS(), Region: os.Getenv("AWS_REGION")})
	if err == nil {
		err = client.EnableVersioning(t.Context(), strings.TrimPrefix(bucket, "s3://"))
	}
	if err != nil {
		t.Fatal(err)
	}
	look(bucket, warning, "keeps former versions")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
	look(bucket, problem, "cannot be written")
}
