/**
 * Every environment variable that Craik reads. `npm run lint` fails when the code reads one that is missing in this
 * list.
 */
import { API_KEYS } from '../../src/accounts/api-keys.ts'
import { LOCAL_PRESETS } from '../../src/providers/local/local-presets.ts'
import { CATALOGUE } from '../../src/providers/provider-catalogue.ts'

interface Variable {
  readonly name: string
  readonly sets: string
  readonly standard: string
  readonly example: string
}

interface VariableGroup {
  readonly title: string
  readonly text?: string
  readonly variables: readonly Variable[]
}

function variable(name: string, sets: string, standard: string, example: string): Variable {
  return { name, sets, standard, example }
}

const MODEL_VARIABLES = [
  ...new Set(CATALOGUE.flatMap(({ config_refs }) => config_refs.filter((name) => name.endsWith('_MODEL')))),
]

export const VARIABLE_GROUPS: readonly VariableGroup[] = [
  {
    title: 'Craik',
    variables: [
      variable('CRAIK_HOME', 'the folder with Craik’s data', '`~/.craik`', '`/srv/craik`'),
      variable(
        'CRAIK_ENGINE',
        'the engine: `unix://PATH` or `tcp://HOST:PORT`; it wins over `DOCKER_HOST`',
        'the first that answers ([list](#container-engine))',
        '`unix:///run/podman/podman.sock`',
      ),
      variable('CRAIK_DEBUG', 'any value adds the stack trace to an error', 'off', '`1`'),
      variable('NO_COLOR', 'any value turns colours off', 'off', '`1`'),
      variable(
        'TERM',
        'the terminal type of a terminal in a sandbox',
        'that of your terminal',
        '`xterm-256color`',
      ),
    ],
  },
  {
    title: 'Folders',
    text: 'Use absolute paths.',
    variables: [
      variable('HOME', 'your home folder', 'that of your user', '`/home/ada`'),
      variable(
        'XDG_CACHE_HOME',
        'the folder above the cache `craik`; outside of every project',
        '`~/.cache`; `~/Library/Caches` on macOS',
        '`/var/cache/ada`',
      ),
      variable(
        'XDG_CONFIG_HOME',
        'the folder above `sandbox/profiles`, and the settings of gh and Gemini CLI',
        '`~/.config`',
        '`/home/ada/.config`',
      ),
      variable(
        'XDG_DATA_HOME',
        'the folder above the login of OpenCode',
        '`~/.local/share`',
        '`/home/ada/.local/share`',
      ),
      variable(
        'XDG_RUNTIME_DIR',
        'sockets of your session: a rootless engine, the keyring',
        'none',
        '`/run/user/1000`',
      ),
      variable('TMPDIR', 'temporary files of the programs that Craik runs', '`/tmp`', '`/var/tmp`'),
    ],
  },
  {
    title: 'Container engine',
    text: [
      'Without `CRAIK_ENGINE` and `DOCKER_HOST`, Craik tries these sockets in order: `/var/run/docker.sock`,',
      '`$XDG_RUNTIME_DIR/docker.sock`, `$XDG_RUNTIME_DIR/podman/podman.sock`, `/run/podman/podman.sock`,',
      '`~/.docker/run/docker.sock`. A TCP address on another machine needs TLS. SSH addresses are not supported.',
    ].join('\n'),
    variables: [
      variable(
        'DOCKER_HOST',
        'the container engine, as for the docker command',
        'none',
        '`tcp://engine.example:2376`',
      ),
      variable('DOCKER_TLS_VERIFY', 'any value uses TLS for a TCP address', 'off', '`1`'),
      variable(
        'DOCKER_CERT_PATH',
        'the folder with `ca.pem`, `cert.pem` and `key.pem`',
        '`~/.docker`',
        '`/home/ada/.docker/build`',
      ),
    ],
  },
  {
    title: 'Trust and proxies',
    text: [
      'The files with authorities must be writable only by you or root, and outside of every mounted workspace.',
      'The proxies apply to npm and to the build of an image, also in lower case. npm also gets its own settings for a',
      'registry, a proxy and authorities (`npm_config_…`).',
    ].join('\n'),
    variables: [
      variable(
        'NODE_EXTRA_CA_CERTS',
        'a file with certificate authorities to trust in addition',
        'none',
        '`/etc/ssl/company.pem`',
      ),
      variable(
        'SSL_CERT_FILE',
        'a file with the certificate authorities',
        'that of the system',
        '`/etc/ssl/cert.pem`',
      ),
      variable(
        'SSL_CERT_DIR',
        'folders with certificate authorities, separated by `:`',
        'those of the system',
        '`/etc/ssl/certs`',
      ),
      variable('HTTP_PROXY', 'the proxy for plain HTTP', 'none', '`http://proxy.example:3128`'),
      variable('HTTPS_PROXY', 'the proxy for HTTPS', 'none', '`http://proxy.example:3128`'),
      variable('NO_PROXY', 'hosts to reach without a proxy', 'none', '`localhost,.example.com`'),
    ],
  },
  {
    title: 'Programs and session',
    variables: [
      variable(
        'PATH',
        'where Craik finds gh, npm, secret-tool and registered commands; only folders that you or root own',
        'none',
        '`/usr/local/bin:/usr/bin:/bin`',
      ),
      variable(
        'DBUS_SESSION_BUS_ADDRESS',
        'the session bus, for programs that read a keyring',
        'none',
        '`unix:path=/run/user/1000/bus`',
      ),
      variable(
        'USER',
        'the account of Claude Code’s login in the keychain of macOS',
        '`claude-code-user`',
        '`ada`',
      ),
      variable(
        'LANG',
        'the language of the programs that Craik runs; also `LC_ALL` and `TZ`',
        'none',
        '`C.UTF-8`',
      ),
    ],
  },
  {
    title: 'Where Craik finds your logins',
    text: 'See [accounts](accounts.md).',
    variables: [
      variable('CLAUDE_CONFIG_DIR', 'the folder of Claude Code', '`~/.claude`', '`/home/ada/.claude-work`'),
      variable('CODEX_HOME', 'the folder of Codex', '`~/.codex`', '`/home/ada/.codex-work`'),
      variable('GEMINI_CLI_HOME', 'the folder above `.gemini`', '`~`', '`/home/ada/gemini-work`'),
      variable('KIMI_CODE_HOME', 'the folder of Kimi Code', '`~/.kimi-code`', '`/home/ada/.kimi-work`'),
      variable('GH_CONFIG_DIR', 'the folder of gh', '`~/.config/gh`', '`/home/ada/.config/gh-work`'),
      ...API_KEYS.map(({ name, family }) =>
        variable(
          name,
          `an API key for ${family}, if no login of that family is found first`,
          'none',
          `\`env ${name}=… craik prompt …\``,
        ),
      ),
    ],
  },
  {
    title: 'Models',
    text: [
      'For commands that you type, such as `craik run execute`. A flag wins, then the model of `craik provider enable`, then',
      'the variable, then the record of the provider. The variables for addresses apply to `craik provider enable` and',
      '`craik provider local-health`. A provider of your own can name others in `config_refs`.',
    ].join('\n'),
    variables: [
      ...LOCAL_PRESETS.flatMap(({ name, base_url, base_url_ref }) =>
        base_url_ref === null
          ? []
          : [
              variable(
                base_url_ref,
                `the address of ${name}; on loopback`,
                `\`${base_url}\``,
                '`http://127.0.0.1:9000/v1`',
              ),
            ],
      ),
      ...MODEL_VARIABLES.map((name) => {
        const users = CATALOGUE.filter(({ config_refs }) => config_refs.includes(name))
        const standard = users[0]!.metadata.default_model ?? 'none'
        return variable(name, `the model of ${users[0]!.name}`, `\`${standard}\``, `\`${standard}\``)
      }),
    ],
  },
  {
    title: 'Login sandboxes',
    text: [
      'For `craik up` and the other commands of the login sandbox. A profile sets the same variables, and wins over the',
      'environment. Flags win over both.',
    ].join('\n'),
    variables: [
      variable('SANDBOX_PROFILE', 'the profile to use; not in a profile', 'none', '`work`'),
      variable(
        'SANDBOX_LOGIN',
        'the login that names the sandbox; in a profile also the expected GitHub login',
        'your GitHub login, else your user name',
        '`octo`',
      ),
      variable('SANDBOX_LOGIN_EXPECTED', 'the GitHub login that this machine must have', 'none', '`octo`'),
      variable('SANDBOX_WORKSPACE', 'the folder to work on', 'the current folder', '`~/work`'),
      variable(
        'SANDBOX_REFUSE_PATTERNS',
        'a regular expression; a variable whose name matches stops the start',
        'none',
        '`^ACME_`',
      ),
      variable('SANDBOX_INBOX_DIR', 'the inbox', '`~/inbox`', '`~/agents`'),
      variable('SANDBOX_BACKEND', '`docker` or `process`', '`docker` if an engine answers', '`process`'),
      variable('SANDBOX_CREDENTIALS', '`broker`, `forward` or `none`', '`broker`', '`none`'),
      variable('SANDBOX_EGRESS', 'presets of hosts to allow', 'none', '`npm,pypi`'),
      variable('SANDBOX_APT', 'Debian packages for its image', 'none', '`jq,ripgrep`'),
      variable('SANDBOX_HARNESSES', 'harnesses to include', 'all five', '`claude-code,codex`'),
      variable(
        'GIT_AUTHOR_NAME',
        'the author of commits in the sandbox',
        'the name of the GitHub login',
        '`Ada`',
      ),
      variable(
        'GIT_AUTHOR_EMAIL',
        'the address of that author',
        'the address of the GitHub login',
        '`ada@example.test`',
      ),
    ],
  },
  {
    title: 'Refused variables',
    text: '`craik up` and `craik rebuild` do not start while one of them is set (exit code 64). Craik never uses them.',
    variables: [
      variable('GITHUB_TOKEN', 'nothing: log in with `gh auth login` instead', '–', '–'),
      variable('GH_ENTERPRISE_TOKEN', 'nothing: see [`config/accounts.yaml`](#configaccountsyaml)', '–', '–'),
    ],
  },
  {
    title: 'In a sandbox',
    text: [
      'Craik sets these for programs in a sandbox, with `HTTP_PROXY` and `HTTPS_PROXY` for the gateway. A sandbox inherits',
      'no other variable of the host: use `craik sandbox create --env`.',
    ].join('\n'),
    variables: [
      variable(
        'CRAIK_SANDBOX_NAME',
        'the name of a login sandbox, for the prompt of its shell',
        '–',
        '`octo-sandbox`',
      ),
      variable(
        'CRAIK_ALLOW_AUTHORS',
        '`1` skips the check of authors for one `git push`; you set this one',
        'off',
        '`CRAIK_ALLOW_AUTHORS=1 git push`',
      ),
    ],
  },
]

/** Variables between parts of Craik. A user never sets them. */
export const INTERNAL_VARIABLES: readonly string[] = [
  'CODEX_ITSELF',
  'CRAIK_GATEWAY_PORT',
  'CRAIK_HOME_INSIDE',
  'CRAIK_HOST_PROGRAMS',
  'CRAIK_LISTEN',
  'CRAIK_SANDBOX',
  'CRAIK_SOCKET',
  'CRAIK_SPILL',
  'CRAIK_VERSION',
  'CRAIK_WARM',
  'CRAIK_WORKSPACE',
]

const NAMED = [
  // The prefixes of Craik, anywhere in the code.
  /\bCRAIK_[A-Z_]*[A-Z]\b/g,
  /(?<=['$])SANDBOX_[A-Z_]*[A-Z]\b/g,
  /\bXDG_[A-Z]+_(?:HOME|DIR)\b/g,
  // Variables of other programs, only where the code reads them.
  /(?<=\b(?:process\.env|environment)\.)[A-Z][A-Z0-9_]+\b/g,
  /(?<=')[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_(?:API_KEY|CONFIG_DIR|CODE_HOME|CLI_HOME|CA_CERTS|CERT_FILE|CERT_DIR|CERT_PATH|BUS_ADDRESS)(?=')/g,
]

/** A column in the output of a program. It only resembles a variable. */
const NOT_VARIABLES: ReadonlySet<string> = new Set(['SANDBOX_ID'])

/** Returns the variables that a source file reads. */
export function variablesIn(source: string): Set<string> {
  const names = NAMED.flatMap((pattern) => [...source.matchAll(pattern)].map(([name]) => name))
  return new Set(names.filter((name) => !NOT_VARIABLES.has(name)))
}
