package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/server"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/shipped"
)

// Rows of searches in a centre's memory in Postgres.
const (
	lexicalInPostgres  = "lexical, Postgres"
	sessionsInPostgres = "sessions, Postgres"
	hybridInPostgres   = "hybrid, meaning, Postgres"
)

// beside returns the rows of the embedded index with which those of Postgres are compared.
var beside = map[string]string{lexicalInPostgres: string(search.Lexical), sessionsInPostgres: wholeSessions, hybridInPostgres: hybridByMeaning}

// besideLoss is how much less the nDCG may be where Postgres finds the candidates.
const besideLoss = 0.01

// annex is a memory in Postgres of all that a harness has recorded, served by a proxy of its own.
type annex struct {
	*harness
	catalog *catalog.Catalog
	drop    func() error
}

// moveIntoPostgres puts what a harness has recorded into a database of its own on a server, with vectors unless e is nil, and serves
// it. The caller closes it.
func moveIntoPostgres(ctx context.Context, h *harness, postgres string, e search.Embedder) (a *annex, err error) {
	address, drop, err := createDatabase(ctx, postgres)
	if err != nil {
		return nil, err
	}
	a = &annex{drop: drop}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	a.catalog, err = catalog.Open(ctx, catalog.Options{
		URL: address, Centre: store.NewCentreID(), Cache: h.store.Shared(), Retention: h.store.Archive().RetentionOf, Digest: digest.Exchange,
	})
	if err != nil {
		return nil, err
	}
	if err := deliver(ctx, h, a.catalog); err != nil {
		return nil, err
	}
	for account := range h.keys {
		if err := a.catalog.Wait(ctx, account); err != nil {
			return nil, err
		}
	}
	if err := embed(ctx, a.catalog, e); err != nil {
		return nil, err
	}
	engine := server.Over(h.store)
	engine.Index = a.catalog
	a.harness = &harness{client: h.client, keys: h.keys, routes: h.routes}
	h.sessions.Range(func(id, name any) bool {
		a.sessions.Store(id, name)
		return true
	})
	err = a.serve(ctx, engine)
	return a, err
}

// embed returns when all turns have vectors.
func embed(ctx context.Context, c *catalog.Catalog, e search.Embedder) error {
	if err := catalog.VectorsOf(c).Start(ctx, e); err != nil {
		return err
	}
	for {
		waiting, err := catalog.VectorsOf(c).Waiting(ctx)
		if err != nil || waiting == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (a *annex) close() (err error) {
	if a.harness != nil && a.stop != nil {
		err = a.stop()
	}
	if a.catalog != nil {
		a.catalog.Close()
	}
	return errors.Join(err, a.drop())
}

// createDatabase makes a database on a server; drop removes it.
func createDatabase(ctx context.Context, serverURL string) (address string, drop func() error, err error) {
	parsed, err := url.Parse(serverURL)
	if err != nil {
		return "", nil, errors.New("-postgres is no URL; write postgres://USER@HOST/DATABASE")
	}
	const name = "mneme_eval"
	run := func(ctx context.Context, statement string) error {
		connection, err := pgx.Connect(ctx, serverURL)
		if err != nil {
			return err
		}
		_, err = connection.Exec(ctx, statement)
		return errors.Join(err, connection.Close(ctx))
	}
	if err := run(ctx, "create database "+name); err != nil {
		return "", nil, fmt.Errorf("make a database for the evaluation: %w", err)
	}
	parsed.Path = "/" + name
	return parsed.String(), func() error { return run(context.WithoutCancel(ctx), "drop database "+name) }, nil
}

// deliver puts all that a harness has recorded into the catalog.
func deliver(ctx context.Context, h *harness, c *catalog.Catalog) error {
	log := h.store.Shipping()
	if err := log.Begin(ctx); err != nil {
		return err
	}
	refused := func(refused []shipped.Refused) error {
		return fmt.Errorf("the database refuses an exchange: %w", refused[0].Reason)
	}
	for after := uint64(0); after < log.Last(); {
		f, err := log.Next(ctx, after)
		if err != nil {
			return err
		}
		switch taken, err := c.Take(ctx, &f, refused); {
		case err != nil:
			return fmt.Errorf("put what was recorded into the database: %w", err)
		case !taken:
			return errors.New("the database already has a part of what was recorded")
		}
		after = f.Last
	}
	return nil
}

// askInPostgres asks for turns, and for sessions if the set has some.
func askInPostgres(ctx context.Context, h *harness, s *set, documents map[string]string, postgres string, take func(mode string, o *outcome, err error) error) (err error) {
	a, err := moveIntoPostgres(ctx, h, postgres, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	o, err := askAll(ctx, a.harness, s, search.Lexical, documents)
	if err := take(lexicalInPostgres, o, err); err != nil || !s.hasSessions() {
		return err
	}
	o, err = askForSessions(ctx, a.harness, s)
	return take(sessionsInPostgres, o, err)
}

// askByMeaningInPostgres asks as [askByMeaning] does at last.
func askByMeaningInPostgres(ctx context.Context, h *harness, s *set, e search.Embedder, documents map[string]string, postgres string, take func(mode string, o *outcome, err error) error) (err error) {
	a, err := moveIntoPostgres(ctx, h, postgres, e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	o, err := askAll(ctx, a.harness, s, search.Auto, documents)
	return take(hybridInPostgres, o, err)
}
