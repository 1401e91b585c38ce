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
  'test/egress/': {
    rules: ['private-host'],
    reason: 'attacks: addresses that no proxy may lead to',
  },
  'test/gateway/': {
    rules: ['credential', 'private-host', 'environment-map'],
    reason:
      'made-up logins and what stands for them; addresses that must be refused; what git’s own server program is handed',
  },
  'src/gateway/egress/egress.fixture.ts': {
    rules: ['private-host', 'credential'],
    reason:
      'names that lead to addresses which must be refused; a caller’s mode of credentials, which is a word',
  },
  'src/sandboxes/manager/manager.fixture.ts': {
    rules: ['environment-map'],
    reason: 'the variable that a sandbox is made with, to find it inside',
  },
  'test/contract/sandbox/': {
    rules: ['environment-map', 'local-path', 'command-payload'],
    reason: 'commands run for real inside, with paths of the sandbox’s own /tmp and what they answer',
  },
  'test/attacks/': {
    rules: ['environment-map', 'command-payload'],
    reason:
      'attacks run for real: what the host’s own git is started with, and what a command inside answers',
  },
  'docs/acp.md': {
    rules: ['command-payload'],
    reason: 'what editors call the program that they start',
  },
  'test/harnesses/editor.ts': {
    rules: ['command-payload'],
    reason: 'a tool server of an editor, which must not be started',
  },
  'test/harnesses/hostile-agent.ts': {
    rules: ['command-payload', 'local-path'],
    reason: 'attacks: what an agent inside asks an editor to run, and paths that it must not name',
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
