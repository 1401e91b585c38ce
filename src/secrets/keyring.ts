/** The login keyring: libsecret on Linux, the keychain on macOS, each through its own command-line tool. */
import { keyringItem, stripNewline } from './secret.ts'
import { failureOf, type Reading, runTool, type ToolStop } from './tool.ts'

interface KeyringTool {
  readonly program: string
  readonly argv: (service: string, account: string) => readonly string[]
  readonly install: string
  /** The exit code for an item that is not there; silence tells it from a keyring that cannot be reached. */
  readonly notFoundExit: number
  readonly notFoundIsSilent: boolean
}

const TOOLS: Partial<Record<NodeJS.Platform, KeyringTool>> = {
  linux: {
    program: 'secret-tool',
    argv: (service, account) => ['secret-tool', 'lookup', 'service', service, 'account', account],
    install: 'sudo apt install libsecret-tools   (Fedora: sudo dnf install libsecret)',
    notFoundExit: 1,
    notFoundIsSilent: true,
  },
  darwin: {
    program: 'security',
    argv: (service, account) => ['security', 'find-generic-password', '-s', service, '-a', account, '-w'],
    install: 'security is part of macOS: put /usr/bin on PATH',
    notFoundExit: 44,
    notFoundIsSilent: false,
  },
}

export async function readKeyring(
  reference: string,
  environment: NodeJS.ProcessEnv,
  stop: ToolStop,
  platform: NodeJS.Platform = process.platform,
): Promise<Reading> {
  const tool = TOOLS[platform]
  const item = keyringItem(reference)
  if (tool === undefined) return { reason: `there is no keyring support for ${platform}` }
  if (item === undefined) return { reason: 'it is not SERVICE/ACCOUNT' }

  const { result, stdout, complained } = await runTool(
    tool.argv(item.service, item.account),
    environment,
    stop,
  )
  if (result.end === 'not_started' && result.reason === 'missing')
    return { reason: `${tool.program} is not on this machine`, hint: tool.install }
  const notFound = result.end === 'exited' && result.exitCode === tool.notFoundExit
  if (notFound && !(tool.notFoundIsSilent && complained)) return { reason: 'the keyring has no such item' }
  const failure = failureOf(result)
  if (failure === undefined) return { value: stripNewline(stdout) }
  return {
    reason: `${tool.program} could not read the keyring: ${failure}`,
    hint: 'unlock the login keyring, and run craik inside that login session',
  }
}
