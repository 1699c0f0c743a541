package catalog

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// openSessions opens the sessions of an account in a transaction, which locks those that it reads. It reads the sessions with these
// ids, and those that these keys lead to, in one query.
func openSessions(ctx context.Context, tx pgx.Tx, account record.AccountNumber, ids []string, keys [][]byte) (*conversation.Sessions, error) {
	records, links := make(map[string][]byte), make(map[string]string)
	for _, key := range keys {
		links[string(key)] = ""
	}
	var session string
	if len(keys) > 0 {
		rows, err := tx.Query(ctx, "select key, session from links where account = $1 and key = any($2)", int64(account), keys)
		if err != nil {
			return nil, err
		}
		var key []byte
		_, err = pgx.ForEachRow(rows, []any{&key, &session}, func() error {
			links[string(key)] = session
			ids = append(ids, session)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	for _, id := range ids {
		records[id] = nil
	}
	err := readInto(ctx, tx, records, "select id, record from sessions where account = $1 and id = any($2) order by id for update", int64(account), ids)
	if err != nil {
		return nil, err
	}
	return heldSessions(ctx, tx, account, records, links), nil
}

// heldSessions returns the sessions of an account with what was read of them and of links in a transaction that holds them. It reads the
// rest.
func heldSessions(ctx context.Context, tx pgx.Tx, account record.AccountNumber, records map[string][]byte, links map[string]string) *conversation.Sessions {
	read := func(id string) ([]byte, error) {
		if stored, known := records[id]; known {
			return stored, nil
		}
		var stored []byte
		err := tx.QueryRow(ctx, "select record from sessions where account = $1 and id = $2 for update", int64(account), id).Scan(&stored)
		return stored, unlessMissing(err)
	}
	readLink := func(key []byte) (string, error) {
		if session, known := links[string(key)]; known {
			return session, nil
		}
		var session string
		err := tx.QueryRow(ctx, "select session from links where account = $1 and key = $2", int64(account), key).Scan(&session)
		return session, unlessMissing(err)
	}
	return conversation.NewSessions(account, read, readLink)
}

// putSessions stores the changed sessions and links.
func putSessions(ctx context.Context, tx pgx.Tx, account record.AccountNumber, in *conversation.Sessions) error {
	var batch pgx.Batch
	if err := queueSessions(&batch, account, in); err != nil || batch.Len() == 0 {
		return err
	}
	return tx.SendBatch(ctx, &batch).Close()
}

func queueSessions(batch *pgx.Batch, account record.AccountNumber, in *conversation.Sessions) error {
	sessions, links, err := in.Changed()
	if err != nil {
		return err
	}
	var ids, places, gone, leadTo []string
	words := make(map[string]*conversation.SessionWords)
	var records, keys, unlinked [][]byte
	for _, s := range sessions {
		if s.Record == nil {
			gone = append(gone, s.ID)
			continue
		}
		ids, places, records = append(ids, s.ID), append(places, s.Place), append(records, s.Record)
		if s.Reworded {
			words[s.ID] = &s.Words
		}
	}
	for _, l := range links {
		if l.Session == "" {
			unlinked = append(unlinked, l.Key)
			continue
		}
		keys, leadTo = append(keys, l.Key), append(leadTo, l.Session)
	}
	if len(ids) > 0 {
		batch.Queue(`insert into sessions (account, id, place, record) select $1, s.* from unnest($2::text[], $3::text[], $4::bytea[]) s order by 2
			on conflict (account, id) do update set place = excluded.place, record = excluded.record`, int64(account), ids, places, records)
	}
	queueWords(batch, account, words)
	if len(gone) > 0 {
		batch.Queue("delete from sessions where account = $1 and id = any($2)", int64(account), gone)
		batch.Queue("delete from unsummarized where account = $1 and session = any($2)", int64(account), gone)
	}
	if len(keys) > 0 {
		batch.Queue(`insert into links (account, key, session) select $1, l.* from unnest($2::bytea[], $3::text[]) l order by 2
			on conflict (account, key) do update set session = excluded.session`, int64(account), keys, leadTo)
	}
	if len(unlinked) > 0 {
		batch.Queue("delete from links where account = $1 and key = any($2)", int64(account), unlinked)
	}
	return nil
}

// queueWords stores the terms of the titles and tags of sessions, which are in the database.
func queueWords(batch *pgx.Batch, account record.AccountNumber, of map[string]*conversation.SessionWords) {
	var ids, terms, without []string
	for id, words := range of {
		if found := lexemes(account, search.SessionTerms(words.Title, words.Tags)); found != "" {
			ids, terms = append(ids, id), append(terms, found)
		} else {
			without = append(without, id)
		}
	}
	if len(ids) > 0 {
		batch.Queue(`insert into named (account, session, terms)
			select $1, n.session, array_to_tsvector(string_to_array(n.terms, $2)) from unnest($3::text[], $4::text[]) n (session, terms) order by 2
			on conflict (account, session) do update set terms = excluded.terms`, int64(account), lexemeEnd, ids, terms)
	}
	if len(without) > 0 {
		batch.Queue("delete from named where account = $1 and session = any($2)", int64(account), without)
	}
}
