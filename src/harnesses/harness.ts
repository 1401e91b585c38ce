/**
 * Describes an agent CLI to Craik: its logins, its configuration for the gateway, and the program that speaks the Agent
 * Client Protocol for it.
 */

export const HARNESS_NAMES = ['claude-code', 'codex', 'gemini', 'opencode', 'kimi', 'fixture'] as const
export type HarnessName = (typeof HARNESS_NAMES)[number]

/** A host login for which a sandbox has a placeholder credential. */
export interface HarnessLogin {
  readonly family: 'anthropic' | 'openai' | 'gemini' | 'openrouter' | 'kimi'
  readonly kind: 'oauth' | 'api_key'
}

/** The values that a harness's configuration depends on. */
export interface HarnessContext {
  /** The gateway's address for programs in the sandbox, without a slash at the end. */
  readonly gateway: string
  /** Undefined when the harness needs no login. */
  readonly login: HarnessLogin | undefined
  /** The harness's own name of the model. Undefined for its default model. */
  readonly model: string | undefined
  /**
   * True when the harness starts a project's servers, hooks and plugins without asking, and accepts the permissions
   * that the project grants itself.
   */
  readonly trustsProject: boolean
}

/** The options for starting or resuming a session. */
export interface SessionOptions {
  /** The options in the agent's own protocol extension. */
  readonly meta?: Readonly<Record<string, unknown>>
  /** The mode that the session must be in. */
  readonly modeId?: string
}

/** A file in the sandbox home. Craik writes it when it does not exist, or when Craik wrote the existing file. */
interface SettingFile {
  /** Relative to the sandbox home. */
  readonly path: string
  readonly content: string
}

export interface Harness {
  readonly name: HarnessName
  /** The name that its vendor uses. */
  readonly title: string
  /** The logins that the harness can use, best first. Empty when it calls no model. */
  readonly logins: readonly HarnessLogin[]
  /** The command with which the user logs in on the host. */
  readonly loginCommand: string
  /** The name of the secret that can replace a login. */
  readonly keyName: string | undefined
  /** Returns the command in the sandbox that speaks the Agent Client Protocol on its standard input and output. */
  agent(harnessContext: HarnessContext): readonly [string, ...string[]]
  session?(harnessContext: HarnessContext): SessionOptions
  /**
   * Project files that the harness loads even when the project is not trusted. If one exists in an untrusted project,
   * Craik does not start the harness.
   */
  readonly alwaysLoadedFiles?: readonly string[]
  /** Returns a command that runs in the sandbox before a session resumes. */
  resumePreparationCommand?(sessionId: string): readonly [string, ...string[]]
  environment(harnessContext: HarnessContext): Readonly<Record<string, string>>
  settings(harnessContext: HarnessContext): readonly SettingFile[]
}

/** Returns the login of the sandbox that suits the harness best. */
export function loginFor(
  harness: Harness,
  logins: readonly { readonly family: string; readonly kind: HarnessLogin['kind'] }[],
): HarnessLogin | undefined {
  return harness.logins.find((wanted) =>
    logins.some(({ family, kind }) => family === wanted.family && kind === wanted.kind),
  )
}

/**
 * Returns every text that Craik would write to a path, for each login, with the model and without one. Craik may
 * replace a file with one of these texts.
 */
export function generatedContents(
  harness: Harness,
  harnessContext: Omit<HarnessContext, 'login'>,
  path: string,
): Set<string> {
  const logins = [undefined, ...harness.logins]
  const places = logins.flatMap((login) => [
    { ...harnessContext, login },
    { ...harnessContext, login, model: undefined },
  ])
  const files = places.flatMap((each) => harness.settings(each))
  return new Set(files.flatMap((file) => (file.path === path ? [file.content] : [])))
}
