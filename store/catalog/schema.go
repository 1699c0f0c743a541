package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// firstVersion is the version of the tables below, the oldest one that this program reads. schemaVersion is theirs with their additions.
// A later program adds to the tables of an earlier one; an earlier one refuses those of a later one.
const (
	firstVersion  = 11
	schemaVersion = firstVersion + len(additions)
)

// partitions is the number of hash partitions of a table, by account.
const partitions = 16

// tables are created by the first program that opens a database. Ids are text that sorts by bytes. A ref is the kind of an object
// and its hash; refs is the concatenation of referenced refs. Values are encoded as in FORMAT.md. A body or a value is in its row, or
// at an offset in a pack, with the size of its record there. An object counts its users: how often rows of exchanges and of other
// objects reference it. released has the references of erased exchanges until they are not counted any more.
//
// A pack is begun before it is written, and kept once the rows that reference it are committed. It is stale if it may contain values
// that no row references, going while it is deleted, and lost if it was missing in the bucket when it was to be rewritten.
// The log of erasures is erased, and edges are those that carry it out; late is the erasure that covered an exchange when it arrived.
// Processes on one database share the accounts, which the centres keep, and the refused entries (aside). A recollection is what was
// recalled for requests; quoted are the exchanges with which it is erased: those that it quotes, and its own.
//
// summaries are written by models; unsummarized are the sessions that have grown since, and when; summarizing says for each account
// which process summarizes, since when, and the tokens used on a day. An exchange that is digested again does not make its session grow.
// A summary is deleted with every exchange that leaves its session, since it may repeat what is erased. named has the words of titles and
// tags. These change rarely, so that their indexes keep no list of pending changes, which every search would read.
//
// vectors are those of turns, and unembedded the turns that are to be embedded: those whose terms have changed since. signs are the signs
// of the vector's values, none if the turn has no vector. The index on them is read instead of the table.
//
// deleted says when accounts of a name were last deleted: exchanges from before are not those of a later account of that name. The roster
// has the accounts with their limits and retention, the keys and the sealed credentials, one row each, without a value once deleted;
// revision ascends in the order of commits. leader is the centre that leads, and until when.
const tables = `
create table meta (name text primary key, value text not null);
create table logs (log bytea primary key, mark bigint not null, tail bytea not null);
create sequence arrivals;

create table exchanges (
	account bigint not null,
	id text collate "C" not null,
	arrival bigint not null default nextval('arrivals'),
	session text collate "C",
	kept timestamptz not null,
	answered bytea,
	speaks bool not null,
	digested bool not null,
	request_bytes bigint not null,
	response_bytes bigint not null,
	record bytea not null,
	refs bytea not null,
	body bytea,
	pack bigint,
	at int,
	size int,
	again bool not null default false,
	primary key (account, id)
) partition by hash (account);
alter table exchanges alter body set storage external;
create index on exchanges (account, pack) where pack is not null;
create index on exchanges (account, session, id) where session is not null;
create index on exchanges (account, answered) where answered is not null;
create index on exchanges (account, kept);
create index on exchanges (arrival) where not digested;

create table objects (
	account bigint not null,
	ref bytea not null,
	refs bytea not null,
	value bytea,
	pack bigint,
	at int,
	size int,
	primary key (account, ref)
) partition by hash (account);
alter table objects alter value set storage external;
create index on objects (account, pack) where pack is not null;

create table packs (
	account bigint not null,
	pack bigint not null,
	began timestamptz not null default now(),
	state text not null default 'begun',
	stale bool not null default false,
	size bigint not null default 0,
	primary key (account, pack)
);
create index on packs (account) where stale;
create index on packs (account) where state <> 'kept';

create table sessions (
	account bigint not null,
	id text collate "C" not null,
	place text collate "C" not null,
	record bytea not null,
	primary key (account, id)
) partition by hash (account);

create index on sessions (account, place);

create table links (
	account bigint not null,
	key bytea not null,
	session text collate "C" not null,
	primary key (account, key)
) partition by hash (account);

create table turns (
	account bigint not null,
	exchange text collate "C" not null,
	began timestamptz not null,
	terms tsvector,
	record bytea not null,
	primary key (account, exchange)
) partition by hash (account);
alter table turns alter record set storage external;
create index on turns using gin (terms);

create table histories (
	account bigint not null,
	session text collate "C" not null,
	hash bytea not null,
	note bytea not null,
	primary key (account, session, hash)
) partition by hash (account);

create table rollups (
	account bigint not null,
	key bytea not null,
	record bytea not null,
	primary key (account, key)
) partition by hash (account);

create table tombs (
	account bigint not null,
	exchange text collate "C" not null,
	primary key (account, exchange)
) partition by hash (account);

create table erasures (
	account bigint not null,
	id text collate "C" not null,
	done bool not null,
	receipt text not null,
	primary key (account, id)
);
create index on erasures (id) where not done;

create table erased (
	number bigint primary key,
	account bigint not null,
	exchange text collate "C" not null,
	late text collate "C"
);
create index on erased (account, late) where late is not null;
create table edges (node int primary key, seen timestamptz not null, clean timestamptz, gone timestamptz);

create table accounts (name text collate "C" primary key, number bigint not null unique);
create table aside (name bytea primary key, entry bytea not null, came timestamptz not null default now());
alter table aside alter entry set storage external;

create table recollections (account bigint not null, key bytea not null, record bytea not null, primary key (account, key));
create table quoted (account bigint not null, exchange text collate "C" not null, key bytea not null, primary key (account, exchange, key));

create table summaries (account bigint not null, session text collate "C" not null, record bytea not null, terms tsvector, primary key (account, session));
create table unsummarized (account bigint not null, session text collate "C" not null, grew timestamptz not null, primary key (account, session));
create index on unsummarized (account, grew);
create table summarizing (account bigint primary key, claimant text, claimed timestamptz, day text, tokens bigint not null default 0);
create function drop_summary() returns trigger language plpgsql set search_path from current as $$ begin
	with gone as (delete from summaries where account = old.account and session = old.session returning account, session)
	insert into unsummarized select account, session, clock_timestamp() from gone
	on conflict (account, session) do update set grew = excluded.grew;
	return null;
end $$;
create trigger erased after delete on exchanges for each row when (old.session is not null) execute function drop_summary();
create trigger moved after update of session on exchanges for each row when (old.session is distinct from new.session)
	execute function drop_summary();

create index on summaries using gin (terms) with (fastupdate = off);
create table named (
	account bigint not null,
	session text collate "C" not null,
	terms tsvector not null,
	primary key (account, session),
	foreign key (account, session) references sessions (account, id) on delete cascade
);
create index on named using gin (terms) with (fastupdate = off);

create table vectors (
	account bigint not null,
	exchange text collate "C" not null,
	signs varbit not null,
	value bytea not null,
	primary key (account, exchange),
	foreign key (account, exchange) references exchanges (account, id) on delete cascade
) partition by hash (account);
create index on vectors (account) include (exchange, signs);
create sequence embeddings;
create table unembedded (
	account bigint not null,
	exchange text collate "C" not null,
	changed bigint not null default nextval('embeddings'),
	claimed timestamptz,
	primary key (account, exchange),
	foreign key (account, exchange) references exchanges (account, id) on delete cascade
);
create index on unembedded (changed);
create function embed_again() returns trigger language plpgsql set search_path from current as $$ begin
	if exists (select from meta where name = 'embedding') then
		insert into unembedded values (new.account, new.exchange)
		on conflict (account, exchange) do update set changed = excluded.changed, claimed = null;
	end if;
	return null;
end $$;
create trigger digested after insert on turns for each row when (new.terms is not null) execute function embed_again();
create trigger changed after update of terms on turns for each row when (new.terms is distinct from old.terms) execute function embed_again();

create table deleted (name text collate "C" primary key, at timestamptz not null);

create table roster (name text collate "C" primary key, account text collate "C" not null, value bytea, revision bigint not null);
create index on roster (revision);
create index on roster (account);
create table audit (id text collate "C" primary key, account text collate "C" not null, entry bytea not null);
create index on audit (account, id);
insert into meta values ('numbered', '0'), ('roster', '0');

create table leader (one bool primary key default true check (one), term bigint not null, process text not null, name text not null, until timestamptz not null);
create table centres (node int primary key, store text not null, name text not null, seen timestamptz not null, clean timestamptz, gone timestamptz);
`

// additions has the statements by which each version after the first one adds to the tables.
var additions = [...]string{
	// 12: turns are not copied to a search engine. New tables have none of this.
	`
drop function if exists copy_again cascade;
drop table if exists unindexed, leaving;
drop sequence if exists changes;
delete from meta where name in ('fill', 'engine');
`,
	// 13: objects count their users, also for programs of an earlier version that still run. What an unfinished erasure has not freed yet
	// gets a user that is released.
	`
alter table objects add column users bigint not null default 0;
create table released (account bigint not null, exchange text collate "C" not null, refs bytea not null);
create index on released (account, exchange);
create function count_users() returns trigger language plpgsql set search_path from current
	set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off as $$ begin
	update objects o set users = o.users + tg_argv[0]::int * named.times from (
		select account, substring(refs from i for ` + refSizeText + `) as ref, count(*) as times
		from changed, generate_series(1, length(refs), ` + refSizeText + `) i group by 1, 2 order by 1, 2) named
	where o.account = named.account and o.ref = named.ref;
	return null;
end $$;
create function release() returns trigger language plpgsql set search_path from current as $$ begin
	insert into released select account, id, refs from changed;
	return null;
end $$;
create trigger named after insert on objects referencing new table as changed for each statement execute function count_users('1');
create trigger freed after delete on objects referencing old table as changed for each statement
	when (current_setting('mneme.deleting', true) is distinct from 'account') execute function count_users('-1');
create trigger named after insert on exchanges referencing new table as changed for each statement execute function count_users('1');
create trigger released after delete on exchanges referencing old table as changed for each statement
	when (current_setting('mneme.deleting', true) is distinct from 'account') execute function release();
create trigger counted after delete on released referencing old table as changed for each statement
	when (current_setting('mneme.deleting', true) is distinct from 'account') execute function count_users('-1');
update objects o set users = named.times from (
	select account, substring(refs from i for ` + refSizeText + `) as ref, count(*) as times from (
		select account, refs from exchanges union all select account, refs from objects) x, generate_series(1, length(refs), ` + refSizeText + `) i
	group by 1, 2) named
where o.account = named.account and o.ref = named.ref;
insert into released select account, encode(ref, 'hex'), ref from objects where users = 0;
update objects set users = 1 where users = 0;
`,
}

// partitioned are the tables with partitions.
var partitioned = []string{"vectors", "exchanges", "objects", "sessions", "links", "turns", "histories", "rollups", "tombs"}

// perAccount are the tables with rows of accounts.
var perAccount = slices.Concat(
	[]string{"erasures", "recollections", "quoted", "summaries", "unsummarized", "summarizing", "named", "unembedded"},
	partitioned,
	[]string{"released"},
)

// prepare creates the tables if there are none, adds to those of an earlier version, and checks that they belong to this centre.
func (c *database) prepare(ctx context.Context) error {
	return pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
		if err := lockTables(ctx, tx, c.centre); err != nil {
			return err
		}
		var version, centre string
		err := tx.QueryRow(ctx, `select
			(select value from meta where name = 'version'), (select value from meta where name = 'centre')`).Scan(&version, &centre)
		if err != nil {
			return err
		}
		number, err := strconv.Atoi(version)
		if err != nil || number > schemaVersion {
			return fmt.Errorf("the tables are of version %s, and this program knows %d: use a later one", version, schemaVersion)
		}
		if number < firstVersion {
			return fmt.Errorf("the tables are of version %d, and this program reads those from %d on: export the memory with the program that made them (mneme export), and import it with this one into an empty database (mneme import)", number, firstVersion)
		}
		if centre != c.centre {
			return fmt.Errorf("the tables are those of another centre (%s), which this data directory does not belong to: give this one an empty data directory, or another database", centre)
		}
		if err := add(ctx, tx, additions[number-firstVersion:]); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "update meta set value = $1 where name = 'version'", strconv.Itoa(schemaVersion)); err != nil {
			return err
		}
		if err := c.chooseSummaries(ctx, tx); err != nil {
			return err
		}
		if err := c.checkBucket(ctx, tx); err != nil {
			return err
		}
		return c.sit(ctx, tx) // in this transaction, so that a centre that starts next knows of this one
	})
}

// addTimeout bounds the wait for a lock by what adds to tables: reads and writes of other processes wait behind it.
const addTimeout = "5s"

// add adds to tables of an earlier version. It may take minutes if they are large.
func add(ctx context.Context, tx pgx.Tx, statements []string) error {
	for _, statement := range statements {
		if _, err := tx.Exec(ctx, "set local lock_timeout = '"+addTimeout+"';"+statement); err != nil {
			var e *pgconn.PgError
			if errors.As(err, &e) && e.Code == "55P03" {
				return fmt.Errorf("another program holds the tables, such as a backup (pg_dump): start again once it has ended: %w", err)
			}
			return err
		}
	}
	return nil
}

// summariesName is the row of meta which says that sessions are summarized: every process that digests notes those that grow.
const summariesName = "summaries"

// chooseSummaries stores whether sessions are summarized, as the centre that keeps the accounts says.
func (c *database) chooseSummaries(ctx context.Context, tx pgx.Tx) (err error) {
	switch {
	case c.worker():
	case c.Summaries:
		_, err = tx.Exec(ctx, "insert into meta values ($1, 'yes') on conflict do nothing", summariesName)
	default:
		_, err = tx.Exec(ctx, "delete from meta where name = $1", summariesName)
	}
	return err
}

// checkBucket checks that the bucket has the packs that the database references.
func (c *database) checkBucket(ctx context.Context, tx pgx.Tx) error {
	var some bool
	err := tx.QueryRow(ctx, "select exists (select from packs where state in ('kept', 'lost'))").Scan(&some)
	switch {
	case err != nil || c.Packs == nil && !some:
		return err
	case c.Packs == nil:
		return errors.New("bodies of this memory are in a bucket: set centre.bodies to it")
	case some:
		return c.Packs.CheckOwned(ctx)
	}
	return c.Packs.Own(ctx)
}

// lockTables locks the tables against other processes that prepare them until the transaction ends. If there are none, it creates those of the first version, of
// a centre with that id.
func lockTables(ctx context.Context, tx pgx.Tx, centre string) error {
	if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock($1, 0)", lockSchema); err != nil {
		return err
	}
	var there bool
	if err := tx.QueryRow(ctx, "select to_regclass($1) is not null", schemaName+".meta").Scan(&there); err != nil || there {
		return err
	}
	return create(ctx, tx, centre)
}

func create(ctx context.Context, tx pgx.Tx, centre string) error {
	if _, err := tx.Exec(ctx, "create schema if not exists "+schemaName); err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(tables)
	for _, table := range partitioned {
		for part := range partitions {
			fmt.Fprintf(&b, "create table %s_%d partition of %s for values with (modulus %d, remainder %d);\n", table, part, table, partitions, part)
		}
	}
	if _, err := tx.Exec(ctx, b.String()); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "insert into meta values ('version', $1), ('centre', $2)", strconv.Itoa(firstVersion), centre)
	return err
}
