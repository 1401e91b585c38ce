/** The nouns that can follow `craik`. Craik loads the file of a noun only when the user names it. */
import type { NounBuilder } from './context.ts'

export interface Noun {
  readonly name: string
  readonly summary: string
  /** The example in the noun's own help. Verbs have their own examples. */
  readonly example?: string
  /** Its heading in `craik help --all`. */
  readonly group: string
  /** Its heading in `craik --help`, which lists only the commands that people use first. */
  readonly startGroup?: string
  readonly load: () => Promise<NounBuilder>
}

const LOGIN_SANDBOX = 'The sandbox of your login (also bin/sandbox.sh):'
const AGENTS = 'Agents and runs:'
const SANDBOXES = 'Sandboxes:'
const CONTROL = 'Permissions and receipts:'
const MODELS = 'Logins, models and budgets:'
const CRAIK = 'Craik itself:'

const WORK = 'Work with agents:'
const CHECK = 'Limit and verify what they do:'
const SET_UP = 'Set up this machine:'

export const NOUNS: readonly Noun[] = [
  {
    name: 'up',
    summary: 'start the sandbox of your login, with your agents and logins',
    group: LOGIN_SANDBOX,
    startGroup: WORK,
    load: async () => (await import('./login-sandbox/up.ts')).upCommand,
  },
  {
    name: 'down',
    summary: 'save the sandbox’s conversations and changes, and stop it',
    group: LOGIN_SANDBOX,
    startGroup: WORK,
    load: async () => (await import('./login-sandbox/down.ts')).downCommand,
  },
  {
    name: 'enter',
    summary: 'open another terminal in the sandbox',
    group: LOGIN_SANDBOX,
    load: async () => (await import('./login-sandbox/enter.ts')).enterCommand,
  },
  {
    name: 'exec',
    summary: 'run a command in the sandbox',
    group: LOGIN_SANDBOX,
    load: async () => (await import('./login-sandbox/exec.ts')).execLoginSandboxCommand,
  },
  {
    name: 'run-headless',
    summary: 'run a command in the sandbox; save its output in your inbox',
    group: LOGIN_SANDBOX,
    load: async () => (await import('./login-sandbox/run-headless.ts')).runHeadlessCommand,
  },
  {
    name: 'status',
    summary: 'list the sandboxes of all logins',
    group: LOGIN_SANDBOX,
    load: async () => (await import('./login-sandbox/status.ts')).statusCommand,
  },
  {
    name: 'list',
    summary: 'list the sandboxes of all logins, like status',
    group: LOGIN_SANDBOX,
    load: async () => (await import('./login-sandbox/status.ts')).listLoginSandboxesCommand,
  },
  {
    name: 'inspect',
    summary: 'show a sandbox with its volumes and profile',
    group: LOGIN_SANDBOX,
    load: async () => (await import('./login-sandbox/status.ts')).inspectCommand,
  },
  {
    name: 'save',
    summary: 'save its conversations and changes to your inbox',
    group: LOGIN_SANDBOX,
    load: async () => (await import('./login-sandbox/save.ts')).saveCommand,
  },
  {
    name: 'rebuild',
    summary: 'recreate the sandbox; persistent data is kept',
    group: LOGIN_SANDBOX,
    load: async () => (await import('./login-sandbox/rebuild.ts')).rebuildCommand,
  },
  {
    name: 'verify-llm-auth',
    summary: 'send a test prompt to each agent that has a login',
    group: LOGIN_SANDBOX,
    load: async () => (await import('./login-sandbox/verify.ts')).verifyLoginsCommand,
  },
  {
    name: 'test-repo',
    summary: 'run the tests of a repository in the sandbox',
    group: LOGIN_SANDBOX,
    load: async () => (await import('./login-sandbox/test-repo.ts')).testRepoCommand,
  },
  {
    name: 'prune',
    summary: 'list what can be removed; --delete removes it',
    group: LOGIN_SANDBOX,
    load: async () => (await import('./login-sandbox/prune.ts')).pruneLoginSandboxCommand,
  },
  {
    name: 'nuke',
    summary: 'remove the sandbox and all its data',
    group: LOGIN_SANDBOX,
    load: async () => (await import('./login-sandbox/nuke.ts')).nukeCommand,
  },
  {
    name: 'profile-new',
    summary: 'create a profile for login sandboxes',
    group: LOGIN_SANDBOX,
    load: async () => (await import('./login-sandbox/profiles.ts')).profileNewCommand,
  },
  {
    name: 'profile-list',
    summary: 'list the profiles',
    group: LOGIN_SANDBOX,
    load: async () => (await import('./login-sandbox/profiles.ts')).profileListCommand,
  },
  {
    name: 'prompt',
    summary: 'ask an agent in a sandbox to do a task, with your login',
    group: AGENTS,
    startGroup: WORK,
    load: async () => (await import('./prompt.ts')).promptCommand,
  },
  {
    name: 'run',
    summary: 'run a task; list, show, apply, resume and cancel runs',
    example: 'craik run execute "run the fixture action"',
    group: AGENTS,
    startGroup: WORK,
    load: async () => (await import('./run.ts')).runNounCommand,
  },
  {
    name: 'acp',
    summary: 'serve an agent to an editor (Agent Client Protocol)',
    group: AGENTS,
    load: async () => (await import('./acp.ts')).acpCommand,
  },
  {
    name: 'agent',
    summary: 'launch, prompt, inspect and recover persistent agents',
    example: 'craik agent launch --provider-id provider_openai --fixture',
    group: AGENTS,
    load: async () => (await import('./agent.ts')).agentCommand,
  },
  {
    name: 'session',
    summary: 'list, show and export agent sessions',
    example: 'craik session list',
    group: AGENTS,
    load: async () => (await import('./session.ts')).sessionCommand,
  },
  {
    name: 'handoff',
    summary: 'list and show the reports of runs',
    example: 'craik handoff list',
    group: AGENTS,
    load: async () => (await import('./handoff.ts')).handoffCommand,
  },
  {
    name: 'transcripts',
    summary: 'list, show, search and save agent conversations',
    example: 'craik transcripts export --sandbox parser',
    group: AGENTS,
    load: async () => (await import('./transcripts.ts')).transcriptsCommand,
  },
  {
    name: 'harness',
    summary: 'list, install, add, update and prune agent programs',
    example: 'craik harness list',
    group: AGENTS,
    load: async () => (await import('./harness.ts')).harnessCommand,
  },
  {
    name: 'demo',
    summary: 'show Craik at work on a repository of yours, offline',
    example: 'craik demo persistent-agent --repo-path .',
    group: AGENTS,
    load: async () => (await import('./demo.ts')).demoCommand,
  },
  {
    name: 'sandbox',
    summary: 'create sandboxes, run commands, copy files, delete them',
    example: 'craik sandbox create --name parser --workspace .',
    group: SANDBOXES,
    startGroup: WORK,
    load: async () => (await import('./sandbox.ts')).sandboxCommand,
  },
  {
    name: 'snapshot',
    summary: 'list, show, export, import and delete snapshots',
    example: 'craik snapshot export parser-before parser.tar',
    group: SANDBOXES,
    load: async () => (await import('./snapshot.ts')).snapshotCommand,
  },
  {
    name: 'volume',
    summary: 'list and delete volumes',
    example: 'craik volume list',
    group: SANDBOXES,
    load: async () => (await import('./volume.ts')).volumeCommand,
  },
  {
    name: 'image',
    summary: 'build, list, show and prune container images',
    example: 'craik image build --apt jq,ripgrep',
    group: SANDBOXES,
    load: async () => (await import('./image.ts')).imageCommand,
  },
  {
    name: 'egress',
    summary: 'allow or block hosts; list, test and watch the rules',
    example: 'craik egress allow --preset npm --sandbox parser',
    group: CONTROL,
    startGroup: CHECK,
    load: async () => (await import('./egress.ts')).egressCommand,
  },
  {
    name: 'receipts',
    summary: 'list, show, verify, prove and export receipts',
    example: 'craik receipts list --since 24h',
    group: CONTROL,
    startGroup: CHECK,
    load: async () => (await import('./receipts.ts')).receiptsCommand,
  },
  {
    name: 'policy',
    summary: 'show what a profile allows, test it, check a policy file',
    example: 'craik policy show --profile automation',
    group: CONTROL,
    load: async () => (await import('./policy.ts')).policyCommand,
  },
  {
    name: 'grant',
    summary: 'grant a capability for a limited time and number of uses',
    example:
      'craik grant create --capability shell.test --operation run --target unit-tests --task-id fix-parser',
    group: CONTROL,
    load: async () => (await import('./grant.ts')).grantCommand,
  },
  {
    name: 'shell',
    summary: 'run one of your own commands, with a signed receipt',
    group: CONTROL,
    load: async () => (await import('./shell.ts')).shellCommand,
  },
  {
    name: 'accounts',
    summary: 'list the logins of this machine that sandboxes can use',
    group: MODELS,
    startGroup: SET_UP,
    load: async () => (await import('./accounts.ts')).accountsCommand,
  },
  {
    name: 'budget',
    summary: 'limit and show spending on models',
    example: 'craik budget set --provider provider_openai --limit 2usd --per day',
    group: MODELS,
    startGroup: CHECK,
    load: async () => (await import('./budget.ts')).budgetCommand,
  },
  {
    name: 'quota',
    summary: 'limit requests and tokens per minute, and parallel calls',
    example: 'craik quota set --provider provider_openai --requests-per-minute 60',
    group: MODELS,
    load: async () => (await import('./quota.ts')).quotaCommand,
  },
  {
    name: 'provider',
    summary: 'list, show, select, check and enable model providers',
    example: 'craik provider list --format table',
    group: MODELS,
    load: async () => (await import('./provider.ts')).providerCommand,
  },
  {
    name: 'gateway',
    summary: 'serve models and the web to programs outside sandboxes',
    group: MODELS,
    load: async () => (await import('./gateway.ts')).gatewayCommand,
  },
  {
    name: 'secret',
    summary: 'bind secrets to their sources, or store them encrypted',
    example: 'craik secret bind OPENAI_API_KEY --env OPENAI_API_KEY',
    group: MODELS,
    load: async () => (await import('./secret.ts')).secretCommand,
  },
  {
    name: 'command',
    summary: 'name command lines, so that agents can run them by name',
    example: 'craik command register openai-key -- pass show openai',
    group: MODELS,
    load: async () => (await import('./command.ts')).commandCommand,
  },
  {
    name: 'doctor',
    summary: 'check this machine and show how to fix what is missing',
    group: CRAIK,
    startGroup: SET_UP,
    load: async () => (await import('./doctor.ts')).doctorCommand,
  },
  {
    name: 'supervisor',
    summary: 'show or stop the background process, print its log',
    example: 'craik supervisor status',
    group: CRAIK,
    load: async () => (await import('./supervisor.ts')).supervisorCommand,
  },
  {
    name: 'login',
    summary: 'log in as an operator; required for craik agent',
    group: CRAIK,
    load: async () => (await import('./login.ts')).loginCommand,
  },
  {
    name: 'logout',
    summary: 'end the login',
    group: CRAIK,
    load: async () => (await import('./login.ts')).logoutCommand,
  },
  {
    name: 'whoami',
    summary: 'show the operator of commands',
    group: CRAIK,
    load: async () => (await import('./login.ts')).whoamiCommand,
  },
]
