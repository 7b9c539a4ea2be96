// A plugin for clang that keeps what it has parsed, and compiles further texts in forks of itself (`kept_clang.py`).
//
// `#pragma ckwatch_keep` instantiates all templates that are due and says "ckwatch: ready". Then every line of standard
// input, a folder, a source's name in it, its id, and a limit in seconds of the processor, separated by tabs, is
// answered by a fork: it goes on as if that source stood behind the pragma, and writes "device.o" in the folder. When it
// has ended, its wait status, seconds of the processor and peak memory in KiB are written as "ckwatch: …" to standard
// error, where its own messages go too. An empty line ends the fork that runs. The end of standard input, and
// 20 minutes without a line, end all.

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clang/AST/ASTContext.h"
#include "clang/Frontend/CompilerInstance.h"
#include "clang/Frontend/FrontendPluginRegistry.h"
#include "clang/Lex/Pragma.h"
#include "clang/Lex/Preprocessor.h"
#include "clang/Sema/Sema.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MD5.h"
#include "llvm/Support/MemoryBuffer.h"

namespace {

constexpr int idle_ms = 20 * 60 * 1000;
constexpr int refused = 3;

clang::CompilerInstance* compiler;

double seconds(const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

// False at the end of input, and when nothing comes for too long.
bool read_line(std::string& line) {
    line.clear();
    pollfd input{STDIN_FILENO, POLLIN, 0};
    char character = 0;
    while (poll(&input, 1, idle_ms) > 0 && read(STDIN_FILENO, &character, 1) == 1) {
        if (character == '\n') {
            return true;
        }
        line += character;
    }
    return false;
}

std::string next_word(std::string& line) {
    const std::size_t end = std::min(line.find('\t'), line.size());
    std::string word = line.substr(0, end);
    line.erase(0, end + 1);
    return word;
}

// In the fork: become the compile of the source that `line` asks for.
void become(std::string line, clang::Preprocessor& preprocessor, clang::SourceLocation place) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const std::string folder = next_word(line), name = next_word(line), id = next_word(line);
    const rlim_t limit_s = std::strtoul(next_word(line).c_str(), nullptr, 10);
    const rlimit processor{limit_s, limit_s}, no_core{0, 0};
    setrlimit(RLIMIT_CPU, &processor);
    setrlimit(RLIMIT_CORE, &no_core);
    if (chdir(folder.c_str()) != 0) {
        _exit(refused);
    }
    const int output = open("device.o", O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0644);
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    auto source = llvm::MemoryBuffer::getFile(name, /*IsText=*/false, /*RequiresNullTerminator=*/true, /*IsVolatile=*/true);
    if (output < 0 || nothing < 0 || !source || dup2(output, STDOUT_FILENO) < 0 || dup2(nothing, STDIN_FILENO) < 0) {
        _exit(refused);
    }
    compiler->getLangOpts().CUID = id;
    if (compiler->getASTContext().getCUIDHash() != llvm::utohexstr(llvm::MD5Hash(id), /*LowerCase=*/true)) {
        _exit(refused);  // it was used before
    }
    auto content = llvm::MemoryBuffer::getMemBufferCopy((*source)->getBuffer(), name);
    clang::SourceManager& sources = preprocessor.getSourceManager();
    const clang::FileID file = sources.createFileID(std::move(content));
    sources.setMainFileID(file);
    preprocessor.EnterSourceFile(file, nullptr, place);
}

void wait_for(pid_t child) {
    const int handle = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
    pollfd events[2] = {{handle, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
    int found = 0;
    do {
        found = poll(events, 2, -1);
    } while (found < 0 && errno == EINTR);
    if (handle < 0 || events[0].revents == 0) {
        kill(child, SIGKILL);
    }
    int status = 1;
    rusage used{};
    wait4(child, &status, 0, &used);
    close(handle);
    std::fprintf(stderr, "ckwatch: %d %.3f %ld\n", status, seconds(used.ru_utime) + seconds(used.ru_stime), used.ru_maxrss);
}

struct Keep : clang::PragmaHandler {
    Keep() : PragmaHandler("ckwatch_keep") {}

    void HandlePragma(clang::Preprocessor& preprocessor, clang::PragmaIntroducer where, clang::Token&) override {
        clang::Token rest;
        do {
            preprocessor.LexUnexpandedToken(rest);
        } while (rest.isNot(clang::tok::eod));
        compiler->getSema().PerformPendingInstantiations();
        if (compiler->getDiagnostics().hasErrorOccurred()) {
            _exit(1);
        }
        std::fputs("ckwatch: ready\n", stderr);
        std::string line;
        while (read_line(line)) {
            if (line.empty()) {
                continue;  // the fork had ended
            }
            const pid_t child = fork();
            if (child == 0) {
                become(line, preprocessor, where.Loc);
                return;
            }
            wait_for(child);
        }
        _exit(0);
    }
};

struct Action : clang::PluginASTAction {
    std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance& made, llvm::StringRef) override {
        compiler = &made;
        made.getPreprocessor().AddPragmaHandler(new Keep());
        return std::make_unique<clang::ASTConsumer>();
    }

    bool ParseArgs(const clang::CompilerInstance&, const std::vector<std::string>&) override { return true; }

    ActionType getActionType() override { return AddBeforeMainAction; }
};

const clang::FrontendPluginRegistry::Add<Action> registered("ckwatch-keep", "keep what was parsed");

}  // namespace
