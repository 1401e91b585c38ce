/** Every capability that a request may name. What is not listed here is denied, whatever a policy says. */

/** Kept in step with `profiles/craik.cedarschema`, which declares each as an action. */
export const CAPABILITIES = {
  'repo.read': 'read files of a repository',
  'repo.write': 'write files of a repository',
  'repo.write.docs': 'write documentation files of a repository',
  'repo.write.immutable': 'write files that are marked as never to change',
  'memory.read': 'read what earlier tasks left behind',
  'memory.write': 'leave something behind for later tasks',
  'receipt.write': 'append to the receipt log',
  'shell.execute': 'run a registered command',
  'shell.test': 'run a registered test command',
  'shell.operator': 'run what the operator typed into `craik shell`',
  'shell.remote.execute': 'run a registered command on another machine',
  'git.mutate': 'change a repository’s history, branches or tags',
  'github.write': 'change anything on GitHub',
  'github.create_pr': 'open a pull request',
  'model.chat': 'send a conversation to a model',
  'runner.execute': 'let a provider’s own runner act',
  'container.run': 'start a container',
  'sandbox.create': 'create a sandbox',
  'sandbox.mount': 'give a sandbox a folder of this machine',
  'sandbox.exec': 'run a command in a sandbox',
  'sandbox.terminal': 'open a terminal in a sandbox',
  'sandbox.inspect': 'see the processes and jobs of a sandbox, and what it uses',
  'sandbox.signal': 'send a signal to a process of a sandbox',
  'sandbox.read': 'copy files out of a sandbox',
  'sandbox.write': 'copy files into a sandbox',
  'sandbox.forward': 'reach a port of a sandbox',
  'sandbox.stop': 'stop a sandbox',
  'sandbox.resume': 'start a stopped sandbox again',
  'sandbox.snapshot': 'keep the state of a sandbox',
  'sandbox.restore': 'create a sandbox from a snapshot',
  'sandbox.delete': 'delete a sandbox and its state',
  'browser.use': 'act through a browser',
  'network.egress': 'open a connection to the outside',
  'secret.use': 'let a secret’s value leave the secret store',
  'secret.write': 'bind, store or remove a secret',
  'grant.write': 'create or revoke a grant',
  'command.write': 'register or remove a command reference',
  'provider.write': 'switch routing to a local model on or off',
  'budget.write': 'set or remove a budget or a quota',
  'mcp.call': 'call a tool of an MCP server',
  'agent.act': 'let an agent in a sandbox use one of its tools',
  'login.use': 'use a login found on this machine',
  'receipts.rotate_key': 'replace the keys that seal the receipt log',
} as const satisfies Record<string, string>

export type Capability = keyof typeof CAPABILITIES

export const CAPABILITY_NAMES = Object.keys(CAPABILITIES) as readonly Capability[]

export function isCapability(name: string): name is Capability {
  return Object.hasOwn(CAPABILITIES, name)
}
