// A plugin for clang that keeps what it has parsed, and compiles further texts in forks of itself (`kept_clang.py`).
//
// `#pragma ckwatch_keep` instantiates all templates that are due and says "ckwatch: ready". Then lines of standard input,
// of words that are separated by tabs, ask for forks. When one has ended, its number, wait status, seconds of the
// processor and peak memory in KiB are written as "ckwatch: …" to standard error.
//
// "compile NUMBER FOLDER SIDE NAME ID LIMIT": goes on as if the source NAME in FOLDER stood behind the pragma, and writes
// "SIDE.o", what the optimizer and the code generator warn of ("SIDE.txt") and the headers that it opens
// ("SIDE-headers.txt") there. It ends at any other warning, behind its first error and the notes to that, of which each line
// is written as "ckwatch: NUMBER says …", and when it has used LIMIT seconds of the processor.
// "grow NUMBER FILE": parses FILE, which ends with the pragma, and stands in for this process then, if it says nothing.
// "end NUMBER": ends that fork.
//
// The end of standard input, and 20 minutes without a line, end all. The process that was started only waits: those that
// parse are its children, so that what has been stood in for can end.
//
// A fork gives its syntax tree back before the optimizer as clang does, but page by page: to free it object by object
// would write to most pages that it shares with this process, and so copy them.

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <poll.h>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "clang/AST/ASTContext.h"
#include "clang/Frontend/CompilerInstance.h"
#include "clang/Frontend/FrontendPluginRegistry.h"
#include "clang/Frontend/TextDiagnosticPrinter.h"
#include "clang/Lex/Pragma.h"
#include "clang/Lex/Preprocessor.h"
#include "clang/Sema/Sema.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/Allocator.h"
#include "llvm/Support/MD5.h"
#include "llvm/Support/MemoryBuffer.h"

namespace {

constexpr int idle_ms = 20 * 60 * 1000;
constexpr int refused = 3;

clang::CompilerInstance* compiler;

// True in a fork that compiles.
bool compiles = false;

double seconds(const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

// False at the end of input.
bool read_line(std::string& line) {
    line.clear();
    char character = 0;
    while (read(STDIN_FILENO, &character, 1) == 1) {
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

// In a fork: go on with the source in `file`.
void enter(const std::string& name, clang::Preprocessor& preprocessor, clang::SourceLocation place, bool is_main) {
    auto source = llvm::MemoryBuffer::getFile(name, /*IsText=*/false, /*RequiresNullTerminator=*/true, /*IsVolatile=*/true);
    if (!source) {
        _exit(refused);
    }
    clang::SourceManager& sources = preprocessor.getSourceManager();
    const clang::FileID file = sources.createFileID(llvm::MemoryBuffer::getMemBufferCopy((*source)->getBuffer(), name));
    if (is_main) {
        sources.setMainFileID(file);
    }
    preprocessor.EnterSourceFile(file, nullptr, place);
}

int open_as(const char* name, int descriptor) {
    const int file = open(name, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0644);
    return file < 0 ? file : dup2(file, descriptor);
}

// The descriptor of the list of headers that clang writes.
int header_list() {
    struct stat list, found;
    for (int descriptor = 3; stat("headers.txt", &list) == 0 && descriptor < 256; ++descriptor) {
        if (fstat(descriptor, &found) == 0 && found.st_ino == list.st_ino && found.st_dev == list.st_dev) {
            return descriptor;
        }
    }
    _exit(refused);
}

// In a fork: prints what a plain pass prints where that is sure, hands on its first error, and else ends.
struct Messages : clang::DiagnosticConsumer {
    Messages(std::string number, int told, clang::FileID includes)
        : number_(std::move(number)), told_(told), includes_(includes) {
        for (clang::TextDiagnosticPrinter* printer : {&errors_, &warnings_}) {
            printer->BeginSourceFile(compiler->getLangOpts(), &compiler->getPreprocessor());
        }
    }

    std::string number_, text_;
    int told_;
    clang::FileID includes_;
    bool warns_ = false;
    llvm::raw_string_ostream stream_{text_};
    clang::TextDiagnosticPrinter errors_{stream_, compiler->getDiagnosticOpts()};
    clang::TextDiagnosticPrinter warnings_{llvm::errs(), compiler->getDiagnosticOpts()};

    // True for what is found behind the syntax tree, in the source or in a header that its includes have read.
    bool is_sure(const clang::Diagnostic& found) const {
        const clang::SourceManager& sources = compiler->getSourceManager();
        const clang::FileID file = sources.getFileID(sources.getExpansionLoc(found.getLocation()));
        clang::FileID root = file;
        for (clang::SourceLocation place; (place = sources.getIncludeLoc(root)).isValid();) {
            root = sources.getFileID(place);
        }
        const unsigned id = found.getID();
        return id >= clang::diag::DIAG_START_FRONTEND && id < clang::diag::DIAG_START_SERIALIZATION &&
               (found.getLocation().isInvalid() || file == sources.getMainFileID() ||
                (root == includes_ && file != includes_));
    }

    void HandleDiagnostic(clang::DiagnosticsEngine::Level level, const clang::Diagnostic& found) override {
        if (level != clang::DiagnosticsEngine::Note) {
            warns_ = level < clang::DiagnosticsEngine::Error;
        }
        if (getNumErrors() != 0 ? level != clang::DiagnosticsEngine::Note : warns_ && !is_sure(found)) {
            _exit(refused);
        }
        clang::DiagnosticConsumer::HandleDiagnostic(level, found);
        (warns_ ? warnings_ : errors_).HandleDiagnostic(level, found);
        for (std::string rest = std::move(text_); !rest.empty();) {
            const std::size_t end = std::min(rest.find('\n'), rest.size());
            const std::string line = "ckwatch: " + number_ + " says " + rest.substr(0, end) + "\n";
            rest.erase(0, end + 1);
            if (line.size() <= PIPE_BUF && write(told_, line.data(), line.size()) < 0) {
                _exit(refused);
            }
        }
        text_.clear();
    }
};

// Without members of clang that are private: forks copy more pages then.
#if defined(CKWATCH_PUBLIC_ONLY)
void reserve_sets() {}
void drop_syntax_tree_later() {}
#else

using Slabs = llvm::SmallVector<void*, 4>;

void reserve_sets(clang::ASTContext& context);
void reserve_sets(clang::DeclarationNameTable& names);
Slabs& slabs_of(llvm::BumpPtrAllocator& allocator);
std::size_t slab_bytes(unsigned index);

// Explicit instantiations may name private members.
template <typename Owner, auto... sets>
struct OpenSets {
    // So that no fork grows a set by little: that writes to all of its nodes, and so copies most pages.
    friend void reserve_sets(Owner& owner) { ((owner.*sets).reserve((owner.*sets).size() / 4 * 5), ...); }
};

using Types = clang::ASTContext;
template struct OpenSets<
    Types, &Types::ExtQualNodes, &Types::PointerTypes, &Types::LValueReferenceTypes, &Types::RValueReferenceTypes,
    &Types::MemberPointerTypes, &Types::ConstantArrayTypes, &Types::FunctionProtoTypes,
    &Types::TemplateTypeParmTypes, &Types::SubstTemplateTypeParmTypes, &Types::TemplateSpecializationTypes,
    &Types::TagTypes, &Types::UsingTypes, &Types::TypedefTypes, &Types::ParenTypes, &Types::DependentDecltypeTypes,
    &Types::PackExpansionTypes, &Types::DependentNameTypes, &Types::QualifiedTemplateNames>;

using Names = clang::DeclarationNameTable;
template struct OpenSets<
    Names, &Names::CXXConstructorNames, &Names::CXXDestructorNames, &Names::CXXConversionFunctionNames,
    &Names::CXXDeductionGuideNames>;

template <Slabs llvm::BumpPtrAllocator::*slabs, std::size_t (*bytes)(unsigned)>
struct OpenAllocator {
    friend Slabs& slabs_of(llvm::BumpPtrAllocator& allocator) { return allocator.*slabs; }
    friend std::size_t slab_bytes(unsigned index) { return bytes(index); }
};

template struct OpenAllocator<&llvm::BumpPtrAllocator::Slabs, &llvm::BumpPtrAllocator::computeSlabSize>;

// In a fork that reads its syntax tree no more.
void drop_syntax_tree() {
    const std::uintptr_t page = sysconf(_SC_PAGESIZE);
    const Slabs& slabs = slabs_of(compiler->getASTContext().getAllocator());
    for (unsigned index = 0; index < slabs.size(); ++index) {
        const auto slab = reinterpret_cast<std::uintptr_t>(slabs[index]);
        const std::uintptr_t begin = (slab + page - 1) & -page, end = (slab + slab_bytes(index)) & -page;
        if (begin < end) {
            madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
        }
    }
}

void drop_syntax_tree_later() {
    if (compiler->getCodeGenOpts().ClearASTBeforeBackend) {
        compiler->getCodeGenOpts().ClearASTBeforeBackend = false;
        compiler->getCodeGenOpts().PassBuilderCallbacks.push_back([](llvm::PassBuilder&) { drop_syntax_tree(); });
    }
}

void reserve_sets() {
    reserve_sets(compiler->getASTContext());
    reserve_sets(compiler->getASTContext().DeclarationNames);
    clang::Sema& sema = compiler->getSema();
    sema.SpecialMemberCache.reserve(sema.SpecialMemberCache.size() / 4 * 5);
}
#endif

// In a fork: let places of debug information that are in the source be found there, and not in the includes, which were
// read from a file of that name.
void name_source(clang::FileID includes) {
    const clang::SourceManager& sources = compiler->getSourceManager();
    const auto cache_of = [&sources](clang::FileID file) -> const clang::SrcMgr::ContentCache& {
        return sources.getSLocEntry(file).getFile().getContentCache();
    };
    const_cast<clang::SrcMgr::ContentCache&>(cache_of(sources.getMainFileID())).OrigEntry = cache_of(includes).OrigEntry;
}

// In a fork: become the compile `number`, which `line` asks for.
void become(const std::string& number, std::string line, clang::Preprocessor& preprocessor, clang::SourceLocation place) {
    const std::string folder = next_word(line), side = next_word(line), name = next_word(line), id = next_word(line);
    const rlim_t limit_s = std::strtoul(next_word(line).c_str(), nullptr, 10);
    const rlimit processor{limit_s, limit_s}, no_core{0, 0};
    setrlimit(RLIMIT_CPU, &processor);
    setrlimit(RLIMIT_CORE, &no_core);
    const int headers = header_list(), nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int told = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    if (chdir(folder.c_str()) != 0 || nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 ||
        open_as((side + ".o").c_str(), STDOUT_FILENO) < 0 || open_as((side + ".txt").c_str(), STDERR_FILENO) < 0 ||
        open_as((side + "-headers.txt").c_str(), headers) < 0) {
        _exit(refused);
    }
    compiler->getLangOpts().CUID = id;
    if (compiler->getASTContext().getCUIDHash() != llvm::utohexstr(llvm::MD5Hash(id), /*LowerCase=*/true)) {
        _exit(refused);  // it was used before
    }
    drop_syntax_tree_later();
    const clang::FileID includes = compiler->getSourceManager().getMainFileID();
    compiler->getCodeGenOpts().PassBuilderCallbacks.push_back([includes](llvm::PassBuilder&) { name_source(includes); });
    compiler->getLangOpts().SpellChecking = false;  // of an error's 55 ms it took 45
    compiler->getDiagnostics().setClient(new Messages(number, told, includes));
    enter(name, preprocessor, place, /*is_main=*/true);
}

// The forks that run, by their handles.
struct Fork {
    pid_t process;
    std::string number;
};

using Forks = std::map<int, Fork>;

void report(Forks& forks, int handle) {
    int status = 1;
    rusage used{};
    wait4(forks[handle].process, &status, 0, &used);
    std::fprintf(stderr, "ckwatch: %s %d %.3f %ld\n", forks[handle].number.c_str(), status,
                 seconds(used.ru_utime) + seconds(used.ru_stime), used.ru_maxrss);
    close(handle);
    forks.erase(handle);
}

struct Keep : clang::PragmaHandler {
    Keep() : PragmaHandler("ckwatch_keep") {}

    // In one that grew: pipes from the process that it stands in for, which ends when that reads no more lines, and to it.
    int before_ = -1, told_ = -1, errors_ = -1;

    void HandlePragma(clang::Preprocessor& preprocessor, clang::PragmaIntroducer where, clang::Token&) override {
        if (compiles) {
            _exit(refused);
        }
        clang::Token rest;
        do {
            preprocessor.LexUnexpandedToken(rest);
        } while (rest.isNot(clang::tok::eod));
        compiler->getSema().PerformPendingInstantiations();
        if (compiler->getDiagnostics().hasErrorOccurred()) {
            _exit(1);
        }
        char nothing = 0;
        if (told_ >= 0) {
            struct stat said;
            if (fstat(STDERR_FILENO, &said) != 0 || said.st_size != 0 || dup2(errors_, STDERR_FILENO) < 0) {
                _exit(refused);
            }
            close(errors_);
            prctl(PR_SET_PDEATHSIG, 0);  // its parent ends
            if (write(told_, "", 1) != 1 || read(before_, &nothing, 1) != 0) {
                _exit(refused);
            }
        }
        reserve_sets();
        std::fputs("ckwatch: ready\n", stderr);
        Forks forks;
        int grown = -1, stop = -1, growing = -1;  // from one that grows, to it, and its handle
        bool reads = true;
        while (reads || !forks.empty()) {
            std::vector<pollfd> events{{reads ? STDIN_FILENO : -1, POLLIN, 0}, {reads ? grown : -1, POLLIN, 0}};
            for (const auto& [handle, fork] : forks) {
                events.push_back({handle, POLLIN, 0});
            }
            const int found = poll(events.data(), events.size(), forks.empty() ? idle_ms : -1);
            if (found < 0 && errno == EINTR) {
                continue;
            }
            if (found <= 0) {
                break;
            }
            for (std::size_t index = 2; index < events.size(); ++index) {
                if (events[index].revents != 0) {
                    report(forks, events[index].fd);
                }
            }
            if (events[1].revents != 0) {
                reads = read(grown, &nothing, 1) != 1;
                if (!reads) {
                    forks.erase(growing);
                }
                close(grown);
                close(stop);
                grown = stop = -1;
            } else if (events[0].revents != 0) {
                std::string line;
                if (!read_line(line)) {
                    break;
                }
                const std::string what = next_word(line), number = next_word(line);
                for (const auto& [handle, fork] : forks) {
                    if (what == "end" && fork.number == number) {
                        kill(fork.process, SIGKILL);
                    }
                }
                if (what == "end") {
                    continue;
                }
                int up[2] = {-1, -1}, down[2] = {-1, -1};
                if (what == "grow" && (pipe2(up, O_CLOEXEC) != 0 || pipe2(down, O_CLOEXEC) != 0)) {
                    break;
                }
                const pid_t child = fork();
                if (child == 0) {
                    prctl(PR_SET_PDEATHSIG, SIGKILL);
                    for (const auto& [handle, fork] : forks) {
                        close(handle);
                    }
                    close(grown);
                    close(stop);
                    if (what == "grow") {
                        close(up[0]);
                        close(down[1]);
                        told_ = up[1];
                        before_ = down[0];
                        errors_ = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
                        open_as("grow.txt", STDERR_FILENO);
                        enter(line, preprocessor, where.Loc, /*is_main=*/false);
                    } else {
                        compiles = true;
                        become(number, line, preprocessor, where.Loc);
                    }
                    return;
                }
                if (what == "grow") {
                    close(up[1]);
                    close(down[0]);
                    grown = up[0];
                    stop = down[1];
                }
                const int handle = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
                if (handle < 0) {
                    break;
                }
                forks[handle] = {child, number};
                growing = what == "grow" ? handle : growing;
            }
        }
        _exit(0);
    }
};

// Ends a fork behind the declaration with its first error.
struct AfterError : clang::ASTConsumer {
    bool HandleTopLevelDecl(clang::DeclGroupRef) override {
        if (compiles && compiler->getDiagnostics().hasErrorOccurred()) {
            _exit(refused);
        }
        return true;
    }
};

struct Action : clang::PluginASTAction {
    std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance& made, llvm::StringRef) override {
        compiler = &made;
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        const pid_t child = fork();
        if (child != 0) {
            while (wait(nullptr) > 0 || errno == EINTR) {
            }
            _exit(1);
        }
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        made.getPreprocessor().AddPragmaHandler(new Keep());
        return std::make_unique<AfterError>();
    }

    bool ParseArgs(const clang::CompilerInstance&, const std::vector<std::string>&) override { return true; }

    ActionType getActionType() override { return AddBeforeMainAction; }
};

const clang::FrontendPluginRegistry::Add<Action> registered("ckwatch-keep", "keep what was parsed");

}  // namespace
