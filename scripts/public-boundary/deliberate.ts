/** Files, and folders (ending in `/`), whose samples of forbidden things are there on purpose, rule by rule, and why. */

export interface Deliberate {
  readonly rules: readonly string[]
  readonly reason: string
}

/** An entry that hides nothing any more is itself a finding. */
export const DELIBERATE: Readonly<Record<string, Deliberate>> = {
  'src/receipts/redaction/corpus.fixture.ts': {
    rules: ['credential', 'bearer-token', 'private-host', 'local-path', 'fixture-id'],
    reason: 'the invented secrets that redaction must find, and texts beside them that it must leave alone',
  },
  'test/e2e/live-log.ts': {
    rules: ['credential'],
    reason: 'the invented token that tests plant, to find it nowhere afterwards',
  },
  'test/contract/command-backend.ts': {
    rules: ['environment-map'],
    reason: 'the one variable that a command is handed, to show that it gets this and no other',
  },
  'docs/verify/vectors/': {
    rules: ['fixture-id'],
    reason:
      'generated: each receipt needs an id of its own, made from a fixed seed and sealed; no run was given them',
  },
}
