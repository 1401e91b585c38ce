/** Files whose samples of forbidden things are there on purpose, rule by rule, and why. */

export interface Deliberate {
  readonly rules: readonly string[]
  readonly reason: string
}

/** An entry that hides nothing any more is itself a finding. */
export const DELIBERATE: Readonly<Record<string, Deliberate>> = {
  'src/receipts/redaction/corpus.fixture.ts': {
    rules: ['credential', 'bearer-token', 'private-host', 'local-path'],
    reason: 'the invented secrets that redaction must find, and texts beside them that it must leave alone',
  },
}
