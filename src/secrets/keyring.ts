/** The login keyring: libsecret on Linux, the keychain on macOS, each through its own command-line tool. */
import { findHostProgram } from '../lib/host-programs.ts'
import { runTool, type SourceResult, type ToolStop } from './run-tool.ts'
import { keyringItem, stripNewline } from './secret.ts'

interface KeyringTool {
  readonly program: 'secret-tool' | 'security'
  readonly argv: (service: string, account: string) => readonly string[]
  readonly install: string
  /**
   * The exit code for an item that does not exist. With `notFoundIsSilent`, the tool then writes no message, and a
   * message means that the keyring is not reachable.
   */
  readonly notFoundExit: number
  readonly notFoundIsSilent: boolean
}

const TOOLS: Partial<Record<NodeJS.Platform, KeyringTool>> = {
  linux: {
    program: 'secret-tool',
    argv: (service, account) => ['lookup', 'service', service, 'account', account],
    install: 'sudo apt install libsecret-tools   (Fedora: sudo dnf install libsecret)',
    notFoundExit: 1,
    notFoundIsSilent: true,
  },
  darwin: {
    program: 'security',
    argv: (service, account) => ['find-generic-password', '-s', service, '-a', account, '-w'],
    install: 'add /usr/bin to PATH: `security` is part of macOS',
    notFoundExit: 44,
    notFoundIsSilent: false,
  },
}

export async function readKeyring(
  reference: string,
  environment: NodeJS.ProcessEnv,
  mounted: readonly string[],
  stop: ToolStop,
  platform: NodeJS.Platform = process.platform,
): Promise<SourceResult> {
  const tool = TOOLS[platform]
  const item = keyringItem(reference)
  if (tool === undefined) return { reason: `Craik does not support keyrings on ${platform}` }
  if (item === undefined) return { reason: 'its name is not of the form SERVICE/ACCOUNT' }

  const program = findHostProgram(tool.program, environment, mounted)
  if (program === undefined) return { reason: `${tool.program} is not installed`, hint: tool.install }
  const { result, stdout, complained, failure } = await runTool(
    program,
    tool.argv(item.service, item.account),
    environment,
    stop,
  )
  const notFound = result.end === 'exited' && result.exitCode === tool.notFoundExit
  if (notFound && !(tool.notFoundIsSilent && complained)) return { reason: 'the keyring has no such item' }
  if (failure === undefined) return { value: stripNewline(stdout) }
  return {
    reason: `${tool.program} could not read the keyring: ${failure}`,
    hint: 'unlock the login keyring, and run craik in that login session',
  }
}
