/** Every capability that a request can name. Craik denies any other, whatever a policy says. */

/** `profiles/craik.cedarschema` must declare each of these as an action. */
export const CAPABILITIES = {
  'repo.read': 'read a repository’s files',
  'repo.write': 'write a repository’s files',
  'repo.write.docs': 'write a repository’s documentation files',
  'repo.write.immutable': 'write files that are marked immutable',
  'memory.read': 'read the memory of earlier tasks',
  'memory.write': 'write memory for later tasks',
  'receipt.write': 'append to the receipt log',
  'shell.execute': 'run a registered command',
  'shell.test': 'run a registered test command',
  'shell.operator': 'run a command that the operator typed into `craik shell`',
  'shell.remote.execute': 'run a registered command on another machine',
  'git.mutate': 'change a repository’s history, branches or tags',
  'github.write': 'make changes on GitHub',
  'github.create_pr': 'open a pull request',
  'model.chat': 'send a conversation to a model',
  'runner.execute': 'use a provider’s own runner',
  'container.run': 'start a container',
  'sandbox.create': 'create a sandbox',
  'sandbox.mount': 'mount a host folder into a sandbox',
  'sandbox.exec': 'run a command in a sandbox',
  'sandbox.terminal': 'open a terminal in a sandbox',
  'sandbox.inspect': 'list a sandbox’s processes and jobs, and its resource usage',
  'sandbox.signal': 'send a signal to a process in a sandbox',
  'sandbox.read': 'copy files out of a sandbox',
  'sandbox.write': 'copy files into a sandbox',
  'sandbox.forward': 'connect to a port of a sandbox',
  'sandbox.stop': 'stop a sandbox',
  'sandbox.resume': 'start a stopped sandbox again',
  'sandbox.snapshot': 'create a snapshot of a sandbox',
  'sandbox.restore': 'create a sandbox from a snapshot',
  'sandbox.delete': 'delete a sandbox and its disk',
  'browser.use': 'control a browser',
  'network.egress': 'open a connection to the internet',
  'secret.use': 'read a secret’s value from the secret store',
  'secret.write': 'bind, store or remove a secret',
  'grant.write': 'create or revoke a grant',
  'command.write': 'register or remove a command reference',
  'provider.write': 'turn routing to a local model on or off',
  'budget.write': 'set or remove a budget or a quota',
  'mcp.call': 'call a tool of an MCP server',
  'agent.act': 'allow an agent in a sandbox to use one of its tools',
  'login.use': 'use a login of this machine',
  'receipts.rotate_key': 'replace the keys that seal the receipt log',
} as const satisfies Record<string, string>

export type Capability = keyof typeof CAPABILITIES

export const CAPABILITY_NAMES = Object.keys(CAPABILITIES) as readonly Capability[]

export function isCapability(name: string): name is Capability {
  return Object.hasOwn(CAPABILITIES, name)
}
