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
  'test/escape/': {
    rules: ['command-payload', 'environment-map', 'local-path', 'private-host'],
    reason: 'attacks: paths and addresses that nothing in a sandbox may reach, and what they print instead',
  },
  'src/sandboxes/manager/manager.fixture.ts': {
    rules: ['environment-map'],
    reason: 'the variable that a sandbox is made with, to find it inside',
  },
  'test/contract/sandbox/': {
    rules: ['environment-map', 'local-path', 'command-payload'],
    reason: 'commands run for real inside, with paths of the sandbox’s own /tmp and what they answer',
  },
  'test/e2e/person.ts': {
    rules: ['environment-map'],
    reason: 'the terminal that a person’s shell would name',
  },
  'docs/verify/vectors/': {
    rules: ['fixture-id'],
    reason:
      'generated: each receipt needs an id of its own, made from a fixed seed and sealed; no run was given them',
  },
}
