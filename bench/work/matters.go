package work

// allMatters are what is done in each project once, with another outcome in each.
var allMatters = []matter{
	// Decisions.
	{
		kind: "decision", alternatives: []string{"NATS", "RabbitMQ", "Redis streams", "Kafka"}, asked: "Which message queue do we take for the notifications of {name}? We have little time for operations.",
		answered: "I compared them and we go with {a} for the notifications of {name}.", later: []string{"what did we decide about the message queue here?", "which queue did we pick for notifications?", "decision on message queue for {name}"}, values: []string{"{a}"},
	},
	{
		kind: "decision", alternatives: []string{"cursors", "page numbers", "keyset tokens"}, asked: "For pagination of the list endpoints we use {a}, please write that down in the docs and change the two handlers.",
		answered: "Done: both handlers and the docs are changed.", bare: true, later: []string{"what did we decide about pagination here?", "how do we paginate the list endpoints?"}, values: []string{"{a}"},
	},
	{
		kind: "decision", alternatives: []string{"ULIDs", "snowflake ids", "UUIDv7"}, asked: "I am not sure about the format of the ids of orders. What do you suggest?",
		answered: "Order ids are {a} from now on, since they sort by time and need no coordination.", later: []string{"what format did we choose for order ids?", "what did we decide about the ids of orders in this project?"}, values: []string{"{a}"},
	},
	{
		kind: "decision", alternatives: []string{"slog", "zerolog", "zap"}, asked: "Clean up the logging, we have three libraries.",
		steps: []Step{{"", "grep -rln log.Printf .", "cmd/main.go", false}}, answered: "All packages log with {a} now, and the other two are out of go.mod.", later: []string{"which logging library do we use here?", "what was decided about logging?"}, values: []string{"{a}"},
	},
	{
		kind: "decision", asked: "How long do we keep the audit trail? Legal was asked last week.", answered: "The audit trail is kept {n} days, as legal wants it, and then deleted by the nightly job.",
		later: []string{"how long do we keep the audit trail?", "retention of audit trail, what did we agree on?"}, values: []string{"{n} days"},
	},
	{
		kind: "decision", alternatives: []string{"trunk-based development", "release branches", "git flow"}, asked: "Let's settle the branching: {a} it is. Update CONTRIBUTING.",
		answered: "CONTRIBUTING says so now.", bare: true, later: []string{"what is our branching model?", "what did we settle on for branching?"}, values: []string{"{a}"},
	},
	// Commands.
	{
		kind: "command", asked: "Restart the workers of {name} in staging without dropping jobs.", steps: []Step{{"Draining first.", "kubectl rollout restart deployment/{name}-worker -n staging-{n}", "deployment.apps/{name}-worker restarted", false}},
		answered: "The workers of {name} were restarted and no job was dropped.", bare: true, later: []string{"which command did we use to restart the workers of {name}?", "how did we restart {name} workers in staging?"}, values: []string{"staging-{n}"},
	},
	{
		kind: "command", asked: "Take a dump of the orders database for the analysts.", steps: []Step{{"", "pg_dump --format=custom --jobs={n} --schema={name} orders", "dumped", false}},
		answered: "The dump is in the bucket of the analysts.", bare: true, later: []string{"how did we dump the orders database for the analysts?", "what was the pg_dump command for the orders database?"}, values: []string{"--schema={name}"},
	},
	{
		kind: "command", asked: "How do I run only the integration tests of the {name} package?", answered: "Run `go test -tags integration_{n} ./pkg/{name}/...`; it needs the database of the compose file.",
		later: []string{"how do I run the integration tests of {name}?", "command for integration tests of the {name} package"}, values: []string{"integration_{n}"},
	},
	{
		kind: "command", asked: "The disk of the build machine is full again.", steps: []Step{{"", "docker system prune --all --filter until={n}h", "Total reclaimed space: 41GB", false}}, answered: "It is at half again; 41 GB were images nobody uses.",
		later: []string{"what did we run when the disk of the build machine was full?", "how did we free disk space on the build machine?"}, values: []string{"until={n}h"},
	},
	// Versions.
	{
		kind: "version", asked: "Update the Postgres driver, there is a security notice.", steps: []Step{{"", "go get github.com/jackc/pgx/v5@v5.{n}.0", "go: upgraded github.com/jackc/pgx/v5 v5.5.0 => v5.{n}.0", false}},
		answered: "The driver is updated, and all tests pass.", bare: true, later: []string{"to which version did we update the Postgres driver?", "what version of the postgres driver are we on?"}, values: []string{"v5.{n}.0"},
	},
	{
		kind: "version", asked: "Which version of Node does the frontend of {name} need?", answered: "The frontend of {name} needs Node 2{n}, pinned in .nvmrc; older ones fail in the bundler.",
		later: []string{"which Node version does the frontend need?", "node version of {name} frontend?"}, values: []string{"Node 2{n}"},
	},
	{kind: "version", asked: "Pin Terraform in CI, it moved under us.", answered: "Terraform is pinned to 1.{n}.2 in the workflow and in the image.", later: []string{"what terraform version is pinned in CI?", "to what did we pin Terraform?"}, values: []string{"1.{n}.2"}},
	// Names.
	{
		kind: "name", asked: "Create a bucket for the invoices with a lifecycle of a year.", steps: []Step{{"", "aws s3 mb s3://invoices-{name}-{n}", "make_bucket: invoices-{name}-{n}", false}}, answered: "The bucket invoices-{name}-{n} exists with the lifecycle.",
		later: []string{"what is the name of the bucket for invoices?", "where are invoices stored, which bucket?"}, values: []string{"invoices-{name}-{n}"},
	},
	{kind: "name", asked: "Put the new checkout behind a feature flag.", answered: "It is behind the flag checkout_{name}, off by default, and on for the team.", later: []string{"which feature flag is the new checkout behind?", "feature flag name for new checkout"}, values: []string{"checkout_{name}"}},
	{kind: "name", asked: "Who gets paged when the importer is down?", answered: "The importer pages the rotation {name}-oncall, set in the alert rules.", later: []string{"who is paged when the importer is down?", "which on-call rotation does the importer have?"}, values: []string{"{name}-oncall"}},
	{kind: "name", asked: "Where does the search service read its synonyms from?", answered: "They are read from config/{name}.yaml at the start, and again on SIGHUP.", later: []string{"where do the synonyms of the search service come from?", "which file has the search synonyms?"}, values: []string{"config/{name}.yaml"}},
	// Reasons.
	{
		kind: "reason", alternatives: []string{"its license changed", "nobody maintains it any more", "it leaks descriptors", "it needs cgo"}, asked: "Should we go on with the PDF renderer that we have?", answered: "We replaced the PDF renderer because {a}; the new one is a container of its own.",
		later: []string{"why did we replace the PDF renderer?", "reason for replacing the pdf renderer"}, values: []string{"{a}"},
	},
	{
		kind: "reason", alternatives: []string{"a stale DNS entry", "a full connection pool", "a clock that was off", "an expired token"}, asked: "The nightly export of {name} failed three times this week. Find out why.",
		steps: []Step{{"", "journalctl -u export-{name}", "export failed", true}}, answered: "The cause was {a} on the second node; I repaired it and added an alert.", later: []string{"why did the nightly export of {name} fail?", "what was the root cause of the failed nightly export?"}, values: []string{"{a}"},
	},
	{
		kind: "reason", alternatives: []string{"optimistic locking", "row locks", "a queue per customer"}, asked: "Two people can edit the same price list. What do you propose?", answered: "I propose {a} rather than {b}: conflicts are rare, and the other way holds up imports.",
		later: []string{"why {a} for the price lists?", "how do we handle concurrent edits of a price list and why?"}, values: []string{"{a}", "conflicts are rare"},
	},
	{kind: "reason", asked: "Why is the timeout of the payment provider that long?", answered: "It is {n} seconds since the bank answers slowly at the end of a month; shorter ones led to double bookings.", later: []string{"why is the payment provider timeout so long?", "reason for the long payment timeout"}, values: []string{"{n} seconds", "double bookings"}},
	// Rejected ways.
	{
		kind: "rejected", alternatives: []string{"sharding by customer", "a read replica", "a materialized view", "partitioning by month"}, asked: "The report of sales is too slow, try what helps.", steps: []Step{{"I try {a} first.", "psql -f try_{name}.sql", "Time: 41000 ms", false}},
		answered: "I tried {a}, but it did not help: the planner ignores it. An index over the day solved it.", later: []string{"what did we try for the slow sales report that did not help?", "which approach was rejected for the sales report?"}, values: []string{"{a}"},
	},
	{
		kind: "rejected", alternatives: []string{"GraphQL", "gRPC", "SOAP"}, asked: "A partner asks for another API. My opinion: we do not offer {a}, it would double the work of support.", answered: "I wrote an answer to the partner that says so politely.", bare: true,
		later: []string{"which API did we refuse to offer the partner?", "did we turn down an API for a partner?"}, values: []string{"{a}"},
	},
	{kind: "rejected", alternatives: []string{"mocking the clock", "a longer sleep", "retrying the test"}, asked: "TestSettle_{name} fails now and then.", answered: "{a} was discarded, since it hides the race. The test waits for the event now.", later: []string{"what did we discard for the flaky TestSettle_{name}?", "which fix of TestSettle_{name} did we not take?"}, values: []string{"{a}"}},
	// The last time.
	{
		kind: "last time", asked: "The certificate of the gateway has expired, customers see warnings!", steps: []Step{{"", "certbot renew --cert-name gw-{name} --dns-{n}", "Congratulations, all renewals succeeded", false}}, answered: "The certificate is renewed, with the DNS challenge of zone {name}.",
		later: []string{"what did we do last time the gateway certificate expired?", "gateway certificate expired, how was it handled before?"}, values: []string{"{name}"},
	},
	{
		kind: "last time", asked: "Deploys hang at the migration step. Unblock them.", answered: "An idle transaction of the reporting user held the lock; I ended it with pg_terminate_backend and set idle_in_transaction_session_timeout to {n}s.",
		later: []string{"what did we do last time deploys hung at the migration?", "deploy hangs at the migration step, how did we unblock it?"}, values: []string{"idle_in_transaction_session_timeout"},
	},
	{
		kind: "last time", asked: "When did the warehouse last change its file format? Please adapt the parser.", answered: "The format changed with file {name}_{n}.csv: two columns are swapped. The parser reads both now.",
		later: []string{"what changed the last time in the warehouse's file format?", "last change of the warehouse file format"}, values: []string{"two columns are swapped"},
	},
	// What was changed later.
	{kind: "changed", asked: "Set a limit for uploads of {name}.", answered: "Uploads of {name} are limited to {n} MB.", now: "Uploads of {name} are limited to {m} MB from now on.", later: []string{"what is the upload limit of {name} now?", "upload limit for {name}?"}, values: []string{"{m} MB"}},
	{kind: "changed", asked: "How many retries does the {name} client make?", answered: "The {name} client makes {n} retries with a pause of a second.", now: "The {name} client makes {m} retries, with growing pauses.", later: []string{"how many retries does the {name} client make?", "retries of {name} client, current value"}, values: []string{"{m} retries"}},
	// Which of two.
	{kind: "of two", alternatives: []string{"Playwright", "Cypress", "Selenium"}, asked: "Decide between {a} and {b} for the tests in the browser.", answered: "I decided for {a}: it runs in all three engines.", later: []string{"did we take {a} or {b} for browser tests?", "{b} or {a} for tests in the browser?"}, values: []string{"decided for {a}"}},
	{kind: "of two", alternatives: []string{"Helm", "Kustomize", "plain manifests"}, asked: "Should the cluster be described with {b} or with {a}?", answered: "With {a}, because the team in operations has it everywhere.", later: []string{"which of the two, {a} or {b}, do we use for the cluster?", "{a} vs {b} for the cluster: what was the outcome?"}, values: []string{"With {a}"}},
	// Negations.
	{kind: "negation", asked: "One more rule: never call the tax service from the {name} module, it may only read the cache.", answered: "Understood, I moved the call.", bare: true, later: []string{"what must the {name} module not call?", "which service may {name} not call?"}, values: []string{"tax service"}},
	{kind: "negation", alternatives: []string{"lodash", "moment", "jQuery"}, asked: "No {a} in the new frontend, please. We had enough of it.", answered: "I removed it from the new frontend.", bare: true, later: []string{"what library do we not want in the new frontend?", "which dependency is banned in the new frontend?"}, values: []string{"{a}"}},
	// Names in other spellings.
	{kind: "spelling", asked: "Make refreshSessionToken{n} idempotent.", answered: "refreshSessionToken{n} checks the {name} header first.", later: []string{"how did we make RefreshSessionToken{n} idempotent?", "what does refresh session token {n} check first?", "refresh_session_token_{n} idempotent how"}, values: []string{"{name} header"}},
	{kind: "spelling", asked: "Rename max_batch_{name} to something clearer.", answered: "It is called largestGroup{n} now, in code and settings.", later: []string{"what is max_batch_{name} called now?", "new name of maxBatch{name}"}, values: []string{"largestGroup{n}"}},
	{kind: "path", asked: "Clean up internal/{name}/writer.go, it is a mess.", answered: "internal/{name}/writer.go has one queue and no global state; the lock moved to {other}Lock.", later: []string{"what did we do in {name}/writer.go?", "what did we change in internal/{name}/writer.go?", "writer.go of {name}: where did the lock go?"}, values: []string{"{other}Lock"}},
	// Dates.
	{kind: "date", asked: "Move the office calendar sync to its own job, {name}.", answered: "The sync runs as job {name} every {n} minutes.", later: []string{"what did we do on {day}?", "what was done on {day} about the calendar sync?"}, values: []string{"{name}"}},
	{kind: "date", asked: "Split the invoice mailer, codename {name}.", answered: "The mailer is two services; {name} sends, the other one renders.", later: []string{"what did we do in {month} with the invoice mailer?", "invoice mailer work in {month}"}, values: []string{"{name}"}},
	// Typing errors.
	{kind: "typo", asked: "Which compression do we take for the backups?", answered: "Backups are compressed with zstd at level {n}.", later: []string{"wich compresion do we use for backups?", "what compression lvel for the bakups"}, values: []string{"level {n}"}},                                            //nolint:misspell // mistyped on purpose
	{kind: "typo", asked: "Where is the webhook of the payment provider registered?", answered: "It is registered at /hooks/{name}, with a secret of its own.", later: []string{"where is the payement webhook registerd?", "webhok of the payment provder, where registered?"}, values: []string{"/hooks/{name}"}}, //nolint:misspell // mistyped on purpose
	// Other languages.
	{kind: "german", asked: "Wie groß darf der Cache der Produktbilder werden?", answered: "Der Cache der Produktbilder darf höchstens {n} MB groß werden, sonst verdrängt er die Preislisten.", later: []string{"was haben wir zur Größe des Caches für Produktbilder entschieden?", "wie groß darf der Produktbilder-Cache sein?"}, values: []string{"{n} MB"}},
	{kind: "german", asked: "Welche Datenbank nehmen wir für die Lagerbestände? Bitte entscheiden.", answered: "Wir haben uns für {name}-DB entschieden, weil sie Zeitreihen kennt.", later: []string{"welche Datenbank haben wir für die Lagerbestände genommen und warum?", "Entscheidung Datenbank Lagerbestand"}, values: []string{"{name}-DB"}},
	{kind: "french", asked: "Quelle file d'attente utilise-t-on pour les factures ?", answered: "Les factures passent par la file {name}, avec une priorité basse.", later: []string{"quelle file d'attente avons-nous choisie pour les factures ?", "file d'attente des factures"}, values: []string{"{name}"}}, //nolint:misspell // French
	{kind: "spanish", asked: "¿Cómo se llama el servicio que calcula los impuestos?", answered: "El servicio que calcula los impuestos se llama {name} y escucha en el puerto {n}.", later: []string{"¿qué servicio calcula los impuestos?", "nombre del servicio de impuestos"}, values: []string{"{name}"}},
	{kind: "japanese", asked: "在庫の同期が遅い原因を調べてください。", answered: "在庫の同期が遅い原因は索引がないことでした。{name}に索引を追加しました。", later: []string{"在庫の同期が遅かった原因は何でしたか？", "在庫 同期 遅い 原因"}, values: []string{"{name}"}},
	{kind: "chinese", asked: "订单导出为什么超时？", answered: "订单导出超时是因为连接池太小，已经改成{n}个连接。", later: []string{"订单导出超时的原因是什么？", "订单导出 连接池 多少"}, values: []string{"{n}"}},
	// Errors.
	{
		kind: "error", asked: "Fix the build.", steps: []Step{{"", "make release", "Exit code 2\nld: undefined symbol: {name}_init\nmake: *** [release] Error 2", true}, {"", "sed -i s/old/new/ Makefile", "", false}, {"", "make release", "ok", false}}, answered: "The library was linked in the wrong order; -l{name} comes last now.",
		later: []string{"ld: undefined symbol: {name}_init", "how did we fix the undefined symbol {name}_init?"}, values: []string{"-l{name}"},
	},
	{
		kind: "error", asked: "Run the import.", steps: []Step{{"", "bin/import --file {name}.csv", "Exit code 1\nError: row {n}: invalid byte sequence for encoding UTF8: 0xfc", true}}, answered: "The file is Windows-1252; with --encoding cp1252 it is imported.",
		later: []string{"Error: row 77: invalid byte sequence for encoding UTF8: 0xfc", "invalid byte sequence in the import, what helped?"}, values: []string{"cp1252"},
	},
}

// remarks are sentences between what matters.
var remarks = []string{
	"I looked at the logs of the last two days first.", "The configuration in the repository agrees with what runs.", "Nothing else in the tree refers to it.", "The change is small and has a test of its own.",
	"I left the other environments as they are.", "The dashboard shows the effect since noon.", "There was a similar report last spring, with another cause.", "The documentation is updated as well.",
	"I ran the linter and all tests of the package.", "You may want to tell the team.", "The old code stays for one release.", "I did not touch the public API.",
}

// topics are what chores are about, the words of which are in questions too.
var topics = []string{
	"the notifications", "the list endpoints", "the orders", "the logging", "the audit trail", "the workers", "the orders database", "the build machine", "the Postgres driver", "the frontend", "the workflow in CI",
	"the invoices", "the checkout", "the importer", "the search service", "the PDF renderer", "the nightly export", "the price lists", "the payment provider", "the sales report", "the partner's API", "the gateway", "the migration",
	"the warehouse", "the uploads", "the browser tests", "the cluster", "the tax service", "the backups", "the calendar", "the mailer",
}

// chores are what is asked and answered beside.
var chores = [][2]string{
	{"Run the tests of {x} again.", "All tests of {x} pass."},
	{"Commit what we have about {x}.", "Committed, with a message that names {x} and {y}."},
	{"Show me the diff of {x}.", "It touches {x} and a test beside it."},
	{"Is there anything else to do for {x}?", "Only the change log of {x} is open; {y} can wait."},
	{"Explain in one sentence how {x} work with {y}.", "In short, {x} call {y} once a minute through {name}."},
	{"Look at the logs of {x}.", "They show nothing unusual about {x} since the last restart of {name}."},
	{"Write a short README for {x}.", "The README of {x} has a paragraph about {y} as well."},
	{"Do we still need {name} in {x}?", "No, {name} is not referenced any more. I left it in because of {y}."},
}
