/**
 * Files, and folders (with a final `/`), that contain forbidden samples on purpose: the rules that they may break, and
 * the reason.
 */

export interface Deliberate {
  readonly rules: readonly string[]
  readonly reason: string
}

/** An entry that hides no finding is itself a finding. */
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
  'src/gateway/egress/egress-proxy.fixture.ts': {
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
  'docs/how-to/use-an-api-key.md': {
    rules: ['credential'],
    reason: 'an invented key, which the page passes in the environment as a reader would',
  },
  'docs/reference/configuration.md': {
    rules: ['environment-map'],
    reason: 'an example profile with invented settings',
  },
  'docs/reference/sandboxes.md': {
    rules: ['environment-map'],
    reason: 'a sentence that names HOME, which every sandbox sets',
  },
  'docs/reference/operator-api.md': {
    rules: ['bearer-token', 'command-payload'],
    reason:
      'the header that a request needs, with a word for the token, and the answer to an invented command',
  },
  'docs/tutorials/agents-with-your-logins.md': {
    rules: ['credential'],
    reason: 'the start of a placeholder credential, to show that it is none',
  },
  'test/docs-page.ts': {
    rules: ['credential'],
    reason: 'names of variables, and an invented key for the pages’ examples',
  },
  'test/docs/': {
    rules: ['local-path', 'command-payload'],
    reason: 'a pattern of home folders, and the command that a simulated model answers with',
  },
  'docs/how-to/use-agents-in-your-editor.md': {
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
  'test/e2e/interactive-user.ts': {
    rules: ['environment-map'],
    reason: 'the terminal that a person’s shell would name',
  },
  'docs/verify/vectors/': {
    rules: ['fixture-id'],
    reason:
      'generated: each receipt needs an id of its own, made from a fixed seed and sealed; no run was given them',
  },
}
